//! The attribute `#[fathom_lab::test]`: it makes a function a test, hands its body to
//! `fathom_lab::in_lab`, and does nothing else.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test in the lab: skipped where there can be none, and measured again where the hypervisor took
/// a processor away, by `fathom_lab::in_lab`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, test: TokenStream) -> TokenStream {
    let attribute: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
    let mut tokens: Vec<TokenTree> = attribute.into_iter().chain(test).collect();
    // The body is the last token tree of a function.
    if let Some(TokenTree::Group(body)) = tokens.pop() {
        let call: TokenStream = "::fathom_lab::in_lab".parse().unwrap_or_default();
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
