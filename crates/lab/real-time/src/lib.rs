//! The attribute `#[fathom_lab::real_time]`: it hands the body of a test to
//! `fathom_lab::in_real_time`, and does nothing else.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Runs the body of a test by `fathom_lab::in_real_time`, which measures it again where the
/// hypervisor took a processor away.
#[proc_macro_attribute]
pub fn real_time(_: TokenStream, test: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = test.into_iter().collect();
    // The body is the last token tree of a function.
    if let Some(TokenTree::Group(body)) = tokens.pop() {
        let call: TokenStream = "::fathom_lab::in_real_time".parse().unwrap_or_default();
        let closure: TokenStream = "||".parse().unwrap_or_default();
        let argument = closure
            .into_iter()
            .chain([TokenTree::Group(body)])
            .collect();
        let argument = TokenTree::Group(Group::new(Delimiter::Parenthesis, argument));
        let inner = call.into_iter().chain([argument]).collect();
        tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, inner)));
    }
    tokens.into_iter().collect()
}
