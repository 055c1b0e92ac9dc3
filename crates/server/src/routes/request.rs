//! Extractors for parts of a request other than its body.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query};
use hapax_api::{Code, DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS};
use hapax_engine::model::Version;
use http::HeaderMap;
use http::header::IF_MATCH;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::answer::{Refused, echo};
use crate::connection::Peer;
use crate::identity::{Acting, Identity};
use crate::trace::TraceId;

/// The caller. Fails on open routes, which have none.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Acting);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(identity) = parts.extensions.get::<Arc<Identity>>().cloned() else {
            let detail = "Send a valid key as `Authorization: Bearer hpx_…`.";
            return Err(Refused::new(Code::Unauthorized, detail));
        };
        let address = parts.extensions.get::<Peer>().map(|peer| peer.address.ip());
        let trace_id = parts.extensions.get::<TraceId>().copied();
        Ok(Caller(Acting { identity, address, trace_id }))
    }
}

/// Parameters of the path; an invalid one is "not found".
#[derive(Debug)]
pub(crate) struct PathOf<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathOf<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(PathOf(value)),
            Err(_) => Err(Refused::new(
                Code::InvalidRequest,
                "A part of the path cannot be read: percent-encode it as UTF-8.",
            )),
        }
    }
}

/// The query; unknown and repeated parameters are rejected.
#[derive(Debug)]
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(QueryOf(value)),
            Err(rejection) => Err(Refused::new(Code::InvalidRequest, echo(&rejection.body_text()))),
        }
    }
}

/// Condition of `If-Match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// Any version.
    Any,
    /// This version.
    Version(Version),
}

/// Reads `If-Match`: absent, `*`, or one version, in quotes or bare.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<IfMatch, Refused> {
    let mut given = headers.get_all(IF_MATCH).iter();
    let (value, more) = (given.next(), given.next());
    let text = match (value.map(|value| value.to_str()), more) {
        (None, _) | (Some(Ok("*")), None) => return Ok(IfMatch::Any),
        (Some(Ok(text)), None) => text.trim(),
        _ => "",
    };
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    match bare.parse() {
        Ok(version) if bare.bytes().all(|b| b.is_ascii_digit()) => {
            Ok(IfMatch::Version(Version::new(version)))
        }
        _ => Err(Refused::new(
            Code::InvalidRequest,
            "`If-Match` takes one version, as `ETag` gave it, or `*`.",
        )
        .with("path", "header:If-Match")),
    }
}

/// The version in `If-Match`; `None` is any.
pub(crate) fn expected_version(headers: &HeaderMap) -> Result<Option<Version>, Refused> {
    Ok(match if_match(headers)? {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version),
    })
}

/// Reason of a deletion. A `DELETE` has no body, so the reason is a parameter.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Deletion {
    /// Why; kept in the audit log.
    pub(crate) reason: Option<String>,
}

/// Number of items on a page.
pub(crate) fn page_limit(given: Option<&str>) -> Result<usize, Refused> {
    let Some(given) = given else { return Ok(DEFAULT_PAGE_ITEMS) };
    match given.parse::<usize>() {
        Ok(limit) if (1..=MAX_PAGE_ITEMS).contains(&limit) && given.bytes().all(|b| b.is_ascii_digit()) => {
            Ok(limit)
        }
        _ => Err(Refused::new(
            Code::InvalidRequest,
            format!("`limit` is a number from 1 to {MAX_PAGE_ITEMS}."),
        )
        .with("path", "query:limit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        values.iter().for_each(|value| {
            headers.append(name, value.parse().unwrap());
        });
        headers
    }

    #[test]
    fn if_match_takes_a_version_as_the_etag_gave_it() {
        let read = |values: &[&str]| if_match(&headers("if-match", values)).ok();
        assert_eq!(read(&[]), Some(IfMatch::Any));
        assert_eq!(read(&["*"]), Some(IfMatch::Any));
        assert_eq!(read(&["\"7\""]), Some(IfMatch::Version(Version::new(7))));
        assert_eq!(read(&["7"]), Some(IfMatch::Version(Version::new(7))));
        for bad in
            [&["\"7"][..], &["+7"], &["W/\"7\""], &["x"], &[""], &["7", "8"], &["99999999999999999999999"]]
        {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    /// RELIABILITY, HTTP: pagination.
    #[test]
    fn a_limit_is_a_number_within_bounds() {
        assert_eq!(page_limit(None).unwrap(), DEFAULT_PAGE_ITEMS);
        assert_eq!(page_limit(Some("200")).unwrap(), 200);
        for bad in ["0", "-1", "1000000000", "201", "", "ten", "1.5", "+5", "٣"] {
            assert!(page_limit(Some(bad)).is_err(), "{bad}");
        }
    }
}
