//! The page itself, as `make page` builds it from the sources in `web/`.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// A file of the page: its path, its type and its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

macro_rules! asset {
    ($path:literal, $name:literal, $type:literal) => {
        (
            $path,
            $type,
            include_bytes!(concat!("../../../../web/dist/", $name)).as_slice(),
        )
    };
}

const ASSETS: [Asset; 4] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/page.js", "page.js", "text/javascript; charset=utf-8"),
    asset!("/page.css", "page.css", "text/css; charset=utf-8"),
    asset!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// The file of this path.
pub(super) async fn asset(uri: Uri) -> Response {
    let asset = ASSETS.iter().find(|(path, ..)| *path == uri.path());
    match asset {
        Some((_, kind, bytes)) => {
            let headers = [
                (header::CONTENT_TYPE, *kind),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, *bytes).into_response()
        }
        None => Problem::new(StatusCode::NOT_FOUND, "there is nothing here").into_response(),
    }
}
