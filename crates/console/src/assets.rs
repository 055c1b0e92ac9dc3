//! Embedded style and script. Their names contain a hash of their content, so browsers may cache them without limit.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, StatusCode};
use sha2::{Digest, Sha256};

/// One file, as pages name it.
pub(crate) struct Asset {
    /// Path of the file.
    pub(crate) path: String,
    kind: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(name: &str, ending: &str, kind: &'static str, text: &'static str) -> Self {
        let hash: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Asset { path: format!("/console/assets/{name}-{hash}.{ending}"), kind, text }
    }
}

pub(crate) fn style() -> &'static Asset {
    static STYLE: LazyLock<Asset> = LazyLock::new(|| {
        Asset::new("console", "css", "text/css; charset=utf-8", include_str!("assets/console.css"))
    });
    &STYLE
}

pub(crate) fn script() -> &'static Asset {
    static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
        Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("assets/console.js"))
    });
    &SCRIPT
}

pub(crate) fn icon() -> &'static Asset {
    static ICON: LazyLock<Asset> =
        LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));
    &ICON
}

/// They need no session: they say nothing about anybody.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/console/assets/{name}", get(serve))
        .route(ELEMENT_PATH, get(serve_element))
        // Browsers ask for it by themselves beside answers that are not pages of the console.
        .route("/favicon.ico", get(serve_favicon))
}

/// The custom element for pages of users, under a name that stays.
pub(crate) const ELEMENT_PATH: &str = "/console/hapax-actions.js";

async fn serve_element() -> Response {
    // Pages of any origin may load it: it says nothing about anybody.
    let headers = [
        (CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (CACHE_CONTROL, "public, max-age=300"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    (headers, include_str!("assets/hapax-actions.js")).into_response()
}

async fn serve_favicon() -> Response {
    ([(CONTENT_TYPE, icon().kind), (CACHE_CONTROL, "public, max-age=86400")], icon().text).into_response()
}

async fn serve(Path(name): Path<String>) -> Response {
    let path = format!("/console/assets/{name}");
    let found = [style(), script(), icon()].into_iter().find(|asset| asset.path == path);
    let Some(asset) = found else {
        return (StatusCode::NOT_FOUND, "This version of the console has no such file. Load the page anew.")
            .into_response();
    };
    let headers: [(HeaderName, &str); 2] =
        [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, asset.text).into_response()
}
