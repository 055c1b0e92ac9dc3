//! JSON bodies, checked by one set of rules before serde reads them, so that memory, SQLite and
//! PostgreSQL never disagree about one.
//!
//! A body is one JSON value in UTF-8. Rejected are: duplicate keys at any depth, `\u0000`, lone
//! surrogates, a byte order mark, nesting beyond [`limits::MAX_JSON_DEPTH`], more than
//! [`limits::MAX_JSON_VALUES`] values and keys, and numbers that would not survive. A number
//! survives if it is
//! - an integer (no point, no exponent) within `i64` or `u64`, kept exactly: 2^53+1 and 2^64-1 are
//!   unchanged, 2^64 is rejected; or
//! - any other number with at most 17 significant digits that a 64-bit float can hold without
//!   becoming infinite, or zero when it is not; it is read as the nearest one.

mod number;
mod scan;
mod text;

use std::error::Error;

use axum::body::Body;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::Bytes;
use hapax_api::{Code, Problem};
use hapax_http_idempotency::BodyPieces;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::answer::{Refused, echo};
use crate::body_budget::BodyBudgetFull;
use crate::limits;
use crate::request_body::BodyTimedOut;

pub use scan::{JsonFault, check_json};

/// A valid body: its value and its text. As an axum extractor it answers an invalid one with a
/// problem; `Option<StrictJson<T>>` lets a route take requests without a body.
#[derive(Debug, Clone)]
pub struct StrictJson<T> {
    /// Its value.
    pub value: T,
    /// The original bytes, which are UTF-8.
    pub text: Bytes,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for StrictJson<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refused> {
        StrictJson::read(request, limits::MAX_BODY_BYTES).await
    }
}

impl<T: DeserializeOwned> StrictJson<T> {
    /// Reads and checks the body of `request`, if it has at most `max_bytes`.
    pub(crate) async fn read(request: Request, max_bytes: usize) -> Result<Self, Refused> {
        check_headers(request.headers())?;
        let text = read_body(request.into_body(), max_bytes).await?;
        let value = read_json(&text)?;
        // serde also reads a struct from a list, in the order of its declared fields.
        if text.trim_ascii_start().starts_with(b"[") {
            return Err(
                Refused::new(Code::InvalidRequest, "The body must be a JSON object.").with("path", "")
            );
        }
        Ok(StrictJson { value, text })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> OptionalFromRequest<S> for StrictJson<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Refused> {
        let is_absent = !request.headers().contains_key(CONTENT_TYPE) && request.body().is_end_stream();
        match is_absent {
            true => Ok(None),
            false => <Self as FromRequest<S>>::from_request(request, state).await.map(Some),
        }
    }
}

/// Checks that the body is declared as JSON in UTF-8, and not compressed.
pub fn check_headers(headers: &HeaderMap) -> Result<(), Refused> {
    let refuse = |detail: &str| Err(Refused::new(Code::UnsupportedMediaType, detail));
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return refuse("Compressed bodies are not supported; send plain JSON, without Content-Encoding.");
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_json = match (types.next(), types.next()) {
        (Some(given), None) => given.to_str().is_ok_and(is_json_in_utf8),
        _ => false,
    };
    match is_json {
        true => Ok(()),
        false => refuse("The body must be JSON in UTF-8; send `Content-Type: application/json`, once."),
    }
}

fn is_json_in_utf8(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
                value.trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            Some(_) => true,
            None => parameter.is_empty(),
        })
}

/// Reads a whole body, but never more than `max_bytes`.
pub async fn read_body(body: Body, max_bytes: usize) -> Result<Bytes, Refused> {
    let mut pieces = BodyPieces::default();
    read_pieces(body, max_bytes, |piece, is_last| pieces.push(piece, is_last)).await?;
    Ok(pieces.into_bytes())
}

/// Passes each piece of a body to `take`, and whether it is the last, but never more than
/// `max_bytes` in all.
pub(crate) async fn read_pieces(
    mut body: Body,
    max_bytes: usize,
    mut take: impl FnMut(Bytes, bool),
) -> Result<(), Refused> {
    let too_large = || {
        let detail =
            format!("The body may have {max_bytes} bytes; send less, or a reference to data kept elsewhere.");
        Refused::new(Code::PayloadTooLarge, detail).with("maxBytes", max_bytes)
    };
    // A body whose declared size is too large is not read at all.
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(too_large());
    }
    let mut left = max_bytes;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(&error))?;
        let Ok(piece) = frame.into_data() else { continue };
        left = left.checked_sub(piece.len()).ok_or_else(too_large)?;
        take(piece, body.is_end_stream());
    }
    Ok(())
}

/// Error for a body that could not be read to its end.
pub(crate) fn unreadable(error: &(dyn Error + 'static)) -> Refused {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if inner.is::<BodyTimedOut>() {
            return Refused::new(
                Code::RequestTimeout,
                "The body came too slowly; nothing was done. Send it again.",
            );
        }
        if let Some(full) = inner.downcast_ref::<BodyBudgetFull>() {
            let detail = "The server holds as many bytes of bodies in memory as it may; nothing was done. Send the request again, under the \
                          same key.";
            let problem = Problem::new(Code::BodyMemoryFull, detail).with("share", full.share());
            return problem.retry_after(limits::STORE_RETRY_AFTER_SECONDS).into();
        }
        cause = inner.source();
    }
    Refused::new(Code::InvalidRequest, "The body broke off before its end; nothing was done. Send it again.")
}

/// Checks and parses bytes. Also for layers that already hold the bytes.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    let text = check_json(bytes)?;
    // The place of an error is searched only after an error.
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = echo(&pointer_of(error.path()));
        let place = if path.is_empty() { "the body".to_owned() } else { format!("`{path}`") };
        // serde's text may quote the input; it ends with a position that is useless within one
        // line.
        let cause = echo(error.inner().to_string().split(" at line ").next().unwrap_or_default());
        let detail = format!("Correct {place}: {cause}.");
        Refused::new(Code::InvalidRequest, detail).with("path", path)
    })
}

/// A place in the body as a JSON Pointer (RFC 6901).
fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } | Segment::Enum { variant: key } => {
            format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
        }
        Segment::Unknown => pointer,
    })
}

impl From<JsonFault> for Refused {
    fn from(fault: JsonFault) -> Self {
        let detail = format!("{fault} (at byte {}); correct the body and send it again.", fault.offset);
        Refused::new(Code::InvalidJson, detail).with("path", echo(&fault.path)).with("offset", fault.offset)
    }
}

#[cfg(test)]
mod tests;
