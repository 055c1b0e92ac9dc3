//! Problem codes of an operation: its own codes, and the codes that every such route has.

use std::collections::{BTreeMap, BTreeSet};

use hapax_api::{Code, PROBLEM_JSON};
use http::Method;
use serde_json::{Map, Value, json};

use super::operation::Operation;
use super::shared::{header_refs, names_in};
use crate::access::Access;
use crate::routes::Route;

/// Codes that any request may get before it reaches its operation, or after a failure there. They
/// are listed once, for the whole API.
pub(crate) const OF_EVERY_REQUEST: &[Code] = &[
    Code::MethodNotAllowed,
    Code::UriTooLong,
    Code::HeadersTooLarge,
    Code::TooManyConnections,
    Code::Internal,
];

/// Problems of every operation that needs a credential or a person.
const OF_CALLERS: &[Code] = &[
    Code::Unauthorized,
    Code::Forbidden,
    Code::NoRole,
    Code::NetworkNotAllowed,
    Code::IdentityProviderUnavailable,
    Code::RateLimited,
];

/// Problems of every operation that reads the store.
const OF_THE_STORE: &[Code] =
    &[Code::StoreUnavailable, Code::StoreBroken, Code::StoreRefused, Code::ShuttingDown];

/// Problems of every operation that takes `Idempotency-Key`.
const OF_REQUEST_KEYS: &[Code] = &[
    Code::InvalidIdempotencyKey,
    Code::InvalidRequest,
    Code::RequestInProgress,
    Code::RequestInDoubt,
    Code::AnswerNotKept,
    Code::IdempotencyKeyExpired,
    Code::IdempotencyWindowPassed,
    Code::IdempotencyKeyConflict,
    // The body is read to fingerprint the request, even if the operation takes none.
    Code::PayloadTooLarge,
    Code::RequestTimeout,
    Code::BodyMemoryFull,
];

/// Problems of every operation that takes a body.
const OF_BODIES: &[Code] = &[
    Code::InvalidRequest,
    Code::InvalidJson,
    Code::UnsupportedMediaType,
    Code::PayloadTooLarge,
    Code::RequestTimeout,
    Code::BodyMemoryFull,
];

/// All codes of `operation`, beside [`OF_EVERY_REQUEST`].
pub(crate) fn codes_of(operation: &Operation, route: &Route) -> BTreeSet<Code> {
    let mut codes: BTreeSet<Code> = operation.problems.iter().copied().collect();
    let is_write = operation.method != Method::GET;
    if route.access != Access::Open {
        codes.extend(OF_CALLERS);
        codes.extend(OF_THE_STORE);
    }
    if is_write {
        codes.extend(OF_THE_STORE);
        codes.insert(Code::OutcomeUnknown);
    }
    if route.is_negotiated() {
        codes.insert(Code::NotAcceptable);
    }
    if route.takes_keys {
        codes.extend(OF_REQUEST_KEYS);
    }
    if operation.body.is_some() {
        codes.extend(OF_BODIES);
    }
    if route.is_versioned {
        codes.extend([Code::Concurrency, Code::InvalidRequest]);
    } else if is_write && route.access != Access::Open {
        // `If-Match` would guard nothing.
        codes.insert(Code::InvalidRequest);
    }
    if operation.is_paged() {
        codes.insert(Code::InvalidCursor);
    }
    if !operation.parameters.is_empty() {
        codes.insert(Code::InvalidRequest);
    }
    if names_in(operation.path).next().is_some() && !operation.is_always_found {
        codes.extend([Code::NotFound, Code::InvalidRequest]);
    }
    if !codes.iter().any(|code| code.kind().status < 500) {
        // Nothing else can be wrong with the request.
        codes.insert(Code::UriTooLong);
    }
    codes
}

/// Responses for these codes, by status. A response that several operations share is a reference.
pub(crate) fn answers_for(codes: &BTreeSet<Code>, shared: &mut Map<String, Value>) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.kind().status).or_default().push(*code);
    }
    let answer = |(status, codes): (u16, Vec<Code>)| {
        let (name, described) = (shared_name(&codes), problem_answer(&codes));
        let told = match name {
            Some(name) => {
                let reference = json!({ "$ref": format!("#/components/responses/{name}") });
                shared.insert(name, described);
                reference
            }
            None => described,
        };
        (status.to_string(), told)
    };
    by_status.into_iter().map(answer).collect()
}

/// Sets of codes that come from the route alone have a name; so has every set of up to three codes.
fn shared_name(codes: &[Code]) -> Option<String> {
    let is = |set: &[Code]| codes.iter().collect::<BTreeSet<_>>() == set.iter().collect::<BTreeSet<_>>();
    if is(&[Code::RequestInProgress, Code::RequestInDoubt, Code::AnswerNotKept]) {
        return Some("KeyInUse".into());
    }
    let unavailable = [Code::StoreUnavailable, Code::OutcomeUnknown, Code::ShuttingDown];
    let with_body = [unavailable.as_slice(), &[Code::BodyMemoryFull]].concat();
    if is(&with_body) {
        return Some("UnavailableForWrites".into());
    }
    if is(&unavailable[..]) || is(&[Code::StoreUnavailable, Code::ShuttingDown]) {
        return Some(if codes.len() == 2 { "Unavailable" } else { "UnavailableForWritesWithoutBody" }.into());
    }
    let in_one_word = |code: &Code| {
        let words = code.as_str().to_ascii_lowercase();
        let capital = |word: &str| format!("{}{}", word[..1].to_ascii_uppercase(), &word[1..]);
        words.split('_').map(capital).collect::<String>()
    };
    (codes.len() <= 3).then(|| codes.iter().map(in_one_word).collect::<Vec<_>>().join("Or"))
}

fn problem_answer(codes: &[Code]) -> Value {
    let line = |code: &Code| {
        let kind = code.kind();
        format!("[`{0}`](/errors/{0}): {1}.", kind.code, kind.title)
    };
    let about = match codes {
        [code] => line(code),
        several => several.iter().map(|code| format!("- {}", line(code))).collect::<Vec<_>>().join("\n"),
    };
    let mut headers = Vec::new();
    if codes.iter().any(|code| code.kind().retryable) {
        headers.push("Retry-After");
    }
    if codes.iter().any(|code| code.kind().status == 401) {
        headers.push("WWW-Authenticate");
    }
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let mut answer = json!({
        "description": about,
        "content": { PROBLEM_JSON: { "schema": { "$ref": "#/components/schemas/Problem" } } },
        "x-problem-codes": names,
    });
    if !headers.is_empty() {
        answer["headers"] = header_refs(headers).into();
    }
    answer
}
