//! Who is answered, and what browsers may do with the answer.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

const COOKIE: &str = "fathom_token";
/// Nothing from elsewhere, nothing inline, no frames around the page.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// What a request must show.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    token: Option<String>,
    is_tls: bool,
}

/// A token that nobody guesses.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("cannot read /dev/urandom")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Guard {
    pub(super) fn new(token: Option<String>, is_tls: bool) -> Self {
        Self { token, is_tls }
    }

    /// What a browser opens.
    pub(super) fn address(&self, address: SocketAddr) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        match &self.token {
            None => format!("{scheme}://{address}/"),
            Some(token) => format!("{scheme}://{address}/?token={token}"),
        }
    }

    /// The same routes for those who may use them.
    pub(super) fn around(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(Arc::new(self), guarded))
    }

    /// Why not; `None`: it may pass.
    fn refusal(&self, request: &Request) -> Option<Problem> {
        let Some(token) = &self.token else {
            // A page from elsewhere may have a name that leads here: it must not read the answers.
            let is_own = host_of(request).is_some_and(is_of_this_machine);
            return (!is_own).then(|| {
                let words = "ask by the address or by localhost, not by another name";
                Problem::new(StatusCode::MISDIRECTED_REQUEST, words)
            });
        };
        let is_known = shown(request.headers()).any(|shown| is_same(shown, token));
        (!is_known).then(|| {
            let words = "open the address with the token that `fathom serve` printed, or send it as `Authorization: Bearer`";
            Problem::new(StatusCode::UNAUTHORIZED, words)
        })
    }

    /// The answer to an address with the right token: the browser keeps the token out of sight.
    fn welcome(&self, request: &Request) -> Option<Response> {
        let token = self.token.as_ref()?;
        let query = request.uri().query()?;
        let shown = query.split('&').find_map(|it| it.strip_prefix("token="))?;
        let is_page = request.uri().path() == "/" && is_same(shown, token);
        let secure = if self.is_tls { "; Secure" } else { "" };
        is_page.then(|| {
            let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/{secure}");
            let headers = [
                (header::SET_COOKIE, cookie),
                (header::LOCATION, "/".to_owned()),
            ];
            (StatusCode::SEE_OTHER, headers).into_response()
        })
    }
}

async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match (guard.welcome(&request), guard.refusal(&request)) {
        (Some(welcome), _) => welcome,
        (None, Some(problem)) => problem.into_response(),
        (None, None) => next.run(request).await,
    };
    let headers = response.headers_mut();
    let own = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in own {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The tokens of a request.
fn shown(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get(header::AUTHORIZATION);
    let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let cookies = cookies.flat_map(|value| value.split("; "));
    let tokens = cookies.filter_map(|it| it.strip_prefix(COOKIE)?.strip_prefix('='));
    bearer.into_iter().chain(tokens)
}

/// Takes as long whichever character differs.
fn is_same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).map(|(a, b)| a ^ b);
    one.len() == other.len() && differing.fold(0, |all, more| all | more) == 0
}

fn host_of(request: &Request) -> Option<&str> {
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(|| request.headers().get(header::HOST)?.to_str().ok())
}

fn is_of_this_machine(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = host.split(':').next().unwrap_or(host);
    name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_elsewhere_are_not_this_machine() {
        for own in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
        ] {
            assert!(is_of_this_machine(own), "{own}");
        }
        for other in [
            "evil.example:8080",
            "10.0.0.1",
            "localhost.evil.example",
            "",
            "[::2]:1",
        ] {
            assert!(!is_of_this_machine(other), "{other}");
        }
    }

    #[test]
    fn tokens_are_random_and_compared_whole() {
        let (one, other) = (
            new_token().unwrap_or_default(),
            new_token().unwrap_or_default(),
        );
        assert!(one.len() == 32 && one != other);
        assert!(is_same(&one, &one) && !is_same(&one, &one[1..]) && !is_same(&one, &other));
    }
}
