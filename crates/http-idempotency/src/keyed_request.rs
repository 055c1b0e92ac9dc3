//! Parses a request with a key: the key, its scope, and the fingerprint.

use std::pin::pin;

use bytes::{Buf, Bytes};
use hapax_engine::model::{BeginRequest, Fingerprint, LeafDigests, RequestId, RequestSummary, WriteToken};
use http::request::Parts;
use http::{Method, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::BoxError;
use crate::admission::Keyed;
use crate::body_pieces::BodyPieces;
use crate::header::{read_first_sent, read_key, read_wait};
use crate::limits::MAX_SHOWN_PATH_CHARS;
use crate::policy::KeyNeed;
use crate::problem::{Code, Problem};
use crate::shared::LayerState;

/// Request extension with the path as the caller sees it, for services below a router that strips a prefix. Without it,
/// two routes that look alike below the router would be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullUri(pub Uri);

/// Reads the key and scope from the head of a request, or returns `None` for a request to pass on unchanged.
pub(crate) fn read_head(shared: &LayerState, parts: &Parts) -> Result<Option<Keyed>, Problem> {
    if !matches!(parts.method, Method::POST | Method::PATCH | Method::DELETE) {
        return Ok(None);
    }
    let need = parts.extensions.get().copied();
    let need = need.or_else(|| shared.need_of.as_ref().and_then(|need_of| need_of(parts)));
    let need = need.unwrap_or(match shared.policy.required {
        true => KeyNeed::Required,
        false => KeyNeed::Optional,
    });
    if need == KeyNeed::Ignored {
        return Ok(None);
    }
    let Some(key) = read_key(&parts.headers)? else {
        if need == KeyNeed::Optional {
            return Ok(None);
        }
        let detail = "This request needs the header Idempotency-Key, so that a retry does nothing twice. Send a key of your own, \
                      best a random UUID, and the same one with every retry.";
        return Err(Problem::new(Code::KeyMissing, detail));
    };
    let first_sent_at = read_first_sent(&parts.headers)?;
    let scope = shared.identify.find_scope(parts).ok_or_else(|| {
        let detail = "An idempotency key belongs to its caller, and this request does not say who calls. Send it with your \
                      credentials.";
        Problem::new(Code::CallerUnknown, detail)
    })?;
    let wait_for = read_wait(&parts.headers).unwrap_or(shared.policy.max_wait);
    let keep = parts.extensions.get().copied();
    Ok(Some(Keyed { scope, key, first_sent_at, wait_for, keep, body_bytes: 0 }))
}

/// Reads the whole body.
pub(crate) async fn read_body<B>(shared: &LayerState, body: B) -> Result<Bytes, Problem>
where
    B: Body,
    B::Data: Buf,
    B::Error: Into<BoxError>,
{
    let limit = shared.policy.max_body_bytes;
    let too_large = || {
        let detail =
            format!("The body of a request with a key may have {limit} bytes at most. Send a smaller one.");
        Problem::new(Code::BodyTooLarge, detail).with("maxBytes", limit)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let (mut body, mut left, mut pieces) = (pin!(body), limit, BodyPieces::default());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(error.into()))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = data.remaining();
        left = left.checked_sub(length).ok_or_else(too_large)?;
        pieces.push(data.copy_to_bytes(length), body.is_end_stream());
    }
    Ok(pieces.into_bytes())
}

fn unreadable(error: BoxError) -> Problem {
    tracing::debug!(%error, "a body could not be read");
    let detail = "The request body ended early, and nothing began. Send the whole request again.";
    Problem::new(Code::BodyUnreadable, detail).caused_by(error)
}

/// The begin request for the store.
pub(crate) fn beginning(shared: &LayerState, keyed: &Keyed, parts: &Parts, body: &[u8]) -> BeginRequest {
    let uri = parts.extensions.get().map_or(&parts.uri, |FullUri(uri)| uri);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let method = parts.method.as_str();
    BeginRequest {
        scope: keyed.scope.clone(),
        key: keyed.key.clone(),
        id: RequestId::new(shared.store.now()),
        fingerprint: Fingerprint::for_request(method, path, body),
        summary: RequestSummary {
            method: method.to_owned(),
            path: path.chars().take(MAX_SHOWN_PATH_CHARS).collect(),
            outline: outline_of(body),
        },
        token: WriteToken::fresh(),
        hold_for: shared.policy.hold_for,
    }
}

/// A body that is not JSON is one leaf, so that a different body differs at the root.
fn outline_of(body: &[u8]) -> LeafDigests {
    if body.is_empty() {
        return LeafDigests::default();
    }
    let opaque = |_| Value::String(format!("bytes:{}", String::from_utf8_lossy(body)));
    LeafDigests::of(&serde_json::from_slice(body).unwrap_or_else(opaque))
}
