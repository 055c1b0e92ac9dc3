//! Answers: the ones to store, their stored parts, and their replay.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hapax_engine::model::{StoredAnswer, Timestamp};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE,
    ETAG, LAST_MODIFIED, LINK, LOCATION, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::header::{IDEMPOTENCY_EXPIRES, IDEMPOTENCY_REPLAYED, http_date};
use crate::limits::{MAX_STORED_HEADER_BYTES, MAX_STORED_HEADERS};

/// Headers stored with an answer and replayed.
pub const KEPT_HEADERS: [HeaderName; 12] = [
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    LINK,
    LOCATION,
    RETRY_AFTER,
    VARY,
];

/// Statuses that mean that nothing began: the request was refused as it is. Its key can be used again at once.
///
/// 422 is not in the list: a service returns it for a request that it understood, and may have begun by then.
pub const RELEASING: [StatusCode; 17] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::NOT_ACCEPTABLE,
    StatusCode::CONFLICT,
    StatusCode::LENGTH_REQUIRED,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::EXPECTATION_FAILED,
    StatusCode::TOO_EARLY,
    StatusCode::PRECONDITION_REQUIRED,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
];

/// Response extension that lets a handler decide whether its response is stored, whatever the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The operation began: the answer is stored and replayed.
    Store,
    /// Nothing began: the key is free at once, and the body is passed on without buffering.
    Release,
    /// The answer is stored already, in the write of the effect ([`FreshKey`](crate::FreshKey)). Without a fresh key it
    /// means the same as `Store`.
    Stored,
    /// Nothing began, and the service was called with a [`FreshKey`](crate::FreshKey) that it cannot use: the layer
    /// holds the key and calls the service again. Without a fresh key it means the same as `Store`.
    Hold,
    /// The outcome is unknown: nothing is stored. The next identical request continues under the same
    /// [`OperationId`](crate::OperationId), and finds the result or produces it.
    Unknown,
}

impl Outcome {
    /// The handler's own outcome, or the default for the status.
    pub(crate) fn of<B>(response: &Response<B>) -> Self {
        let said = response.extensions().get().copied();
        said.unwrap_or(match RELEASING.contains(&response.status()) {
            true => Outcome::Release,
            false => Outcome::Store,
        })
    }
}

/// The answer in its stored form. `body` is `None` if it is too large.
pub(crate) fn to_stored(
    status: StatusCode,
    headers: &HeaderMap,
    also: &[HeaderName],
    body: Option<&Bytes>,
) -> StoredAnswer {
    let is_kept = |name: &HeaderName| KEPT_HEADERS.contains(name) || also.contains(name);
    let kept = headers.iter().filter(|(name, value)| is_kept(name) && value.len() <= MAX_STORED_HEADER_BYTES);
    // A value that is not text cannot be stored as text, and no header of the list should have one.
    let texts = kept.filter_map(|(name, value)| {
        let text = std::str::from_utf8(value.as_bytes()).ok()?;
        Some((name.as_str().to_owned(), text.to_owned()))
    });
    StoredAnswer {
        status: status.as_u16(),
        headers: texts.take(MAX_STORED_HEADERS).collect(),
        body: body.map(|bytes| Arc::from(&bytes[..])),
    }
}

/// The response for a stored answer, or `None` if its body was not stored.
pub(crate) fn replay(answer: &StoredAnswer, expires_at: Timestamp) -> Option<Response<Bytes>> {
    let body = Bytes::from_owner(answer.body.clone()?);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    }
    headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    headers.insert(IDEMPOTENCY_EXPIRES, http_date(expires_at));
    Some(response)
}

/// The body of an answer: buffered completely, or streamed.
#[derive(Debug)]
pub struct AnswerBody<B> {
    /// Bytes read so far.
    held: VecDeque<Bytes>,
    /// The remaining stream.
    rest: Option<Pin<Box<B>>>,
}

impl<B> AnswerBody<B> {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let held = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([bytes]) };
        AnswerBody { held, rest: None }
    }

    pub(crate) fn passed(body: B) -> Self {
        AnswerBody { held: VecDeque::new(), rest: Some(Box::pin(body)) }
    }
}

/// Outcome of reading a response body.
pub(crate) enum BodyRead<B> {
    /// All of it.
    Whole(Bytes),
    /// The body is larger than the limit for stored bodies.
    Long(AnswerBody<B>),
}

/// Reads a body until it ends or is larger than `limit`.
pub(crate) async fn read<B: Body<Data = Bytes>>(body: B, limit: usize) -> Result<BodyRead<B>, B::Error> {
    if body.size_hint().lower() > limit as u64 {
        return Ok(BodyRead::Long(AnswerBody::passed(body)));
    }
    let mut rest = Box::pin(body);
    let mut held = VecDeque::new();
    let mut size = 0usize;
    while let Some(frame) = rest.frame().await {
        // Trailers are not stored, so the first caller does not get them either.
        let Ok(data) = frame?.into_data() else { continue };
        size = size.saturating_add(data.len());
        held.push_back(data);
        if size > limit {
            return Ok(BodyRead::Long(AnswerBody { held, rest: Some(rest) }));
        }
    }
    Ok(BodyRead::Whole(match held.len() {
        1 => held.remove(0).unwrap_or_default(),
        _ => held.into_iter().flatten().collect(),
    }))
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(bytes) = self.held.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match &mut self.rest {
            Some(rest) => pin!(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held: u64 = self.held.iter().map(|bytes| bytes.len() as u64).sum();
        let mut hint = self.rest.as_ref().map_or(SizeHint::with_exact(0), |rest| rest.size_hint());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint.set_lower(hint.lower().saturating_add(held));
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn chunks(parts: &[&'static str]) -> impl Body<Data = Bytes, Error = std::convert::Infallible> + use<> {
        let frames: Vec<_> =
            parts.iter().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).collect();
        StreamBody::new(futures_util::stream::iter(frames))
    }

    #[tokio::test]
    async fn a_body_is_held_up_to_its_limit_and_passed_on_whole_beyond_it() {
        let Ok(BodyRead::Whole(bytes)) = read(chunks(&["ab", "cd"]), 4).await else { panic!("it fits") };
        assert_eq!(bytes, "abcd");
        let Ok(BodyRead::Long(body)) = read(chunks(&["ab", "cd", "ef"]), 3).await else {
            panic!("it does not fit")
        };
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
        let Ok(BodyRead::Long(body)) = read(Full::from("abcd"), 3).await else { panic!("it does not fit") };
        assert_eq!(body.size_hint().exact(), Some(4));
        let Ok(BodyRead::Whole(bytes)) = read(chunks(&[]), 0).await else { panic!("nothing fits") };
        assert!(AnswerBody::<Full<Bytes>>::whole(bytes).is_end_stream());
    }

    #[test]
    fn headers_that_matter_come_back_and_others_do_not() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("location", "/payments/1"),
            ("link", "</a>; rel=a"),
            ("set-cookie", "session=secret"),
            ("x-cost", "3"),
            ("date", "now"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.append(LINK, HeaderValue::from_static("</b>; rel=b"));
        headers.insert(ETAG, HeaderValue::try_from("e".repeat(MAX_STORED_HEADER_BYTES + 1)).unwrap());
        let also = [HeaderName::from_static("x-cost")];
        let stored = to_stored(StatusCode::CREATED, &headers, &also, Some(&Bytes::from_static(b"{ }")));
        let again = replay(&stored, Timestamp::EPOCH).unwrap();
        assert_eq!(again.status(), 201);
        assert_eq!(again.body(), "{ }");
        let names: std::collections::BTreeSet<_> = again.headers().keys().map(|name| name.as_str()).collect();
        let expected =
            ["content-type", "idempotency-expires", "idempotency-replayed", "link", "location", "x-cost"];
        assert_eq!(names, expected.into());
        assert_eq!(again.headers().get_all(LINK).iter().count(), 2);
        assert_eq!(again.headers()[IDEMPOTENCY_EXPIRES], "Thu, 01 Jan 1970 00:00:00 GMT");
        let without = to_stored(StatusCode::OK, &headers, &[], None);
        assert!(replay(&without, Timestamp::EPOCH).is_none());
    }

    /// Responses of requests that began are stored, 5xx included; refusals are not.
    #[test]
    fn the_status_tells_whether_something_began_unless_the_handler_does() {
        let of = |status: u16, said: Option<Outcome>| {
            let mut response = Response::builder().status(status).body(()).unwrap();
            said.map(|said| response.extensions_mut().insert(said));
            Outcome::of(&response)
        };
        for status in [200, 201, 202, 204, 303, 402, 410, 422, 500, 502, 503, 504] {
            assert_eq!(of(status, None), Outcome::Store, "{status}");
            assert_eq!(of(status, Some(Outcome::Release)), Outcome::Release);
        }
        for status in [400, 401, 403, 404, 405, 406, 409, 411, 412, 413, 414, 415, 417, 425, 428, 429, 431] {
            assert_eq!(of(status, None), Outcome::Release, "{status}");
            assert_eq!(of(status, Some(Outcome::Store)), Outcome::Store);
        }
    }
}
