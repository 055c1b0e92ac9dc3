//! The table of the contract, row by row, on every store.

use std::time::Duration;

use axum::http::HeaderValue;
use hapax_engine::store::RequestKeyStore;
use hapax_http_idempotency::{Policy, limits};
use serde_json::json;

use crate::world::{
    StoreAndClock, World, also, anna, gated_world, key, on_every_store, pay, request, until, with_headers,
};

const DAY: Duration = limits::A_DAY;
const SECOND: Duration = Duration::from_secs(1);

fn book(stage: &StoreAndClock) -> &dyn RequestKeyStore {
    stage.store.request_key_store().unwrap()
}

on_every_store!(
    a_retry_gets_the_same_bytes_and_nothing_is_charged_again,
    another_amount_is_a_conflict_that_tells_what_is_stored,
    two_at_once_charge_once_and_get_the_same_body,
    a_caller_that_stops_waiting_gets_request_in_progress,
    another_node_waits_for_the_first_and_gives_its_answer,
    an_expired_key_is_refused_in_its_grace_and_then_new,
    an_expired_key_is_new_unless_the_caller_says_that_it_is_late,
    a_late_request_whose_key_is_known_is_answered,
    a_first_sending_that_is_no_date_is_refused,
    an_invalid_key_is_refused_before_anything_is_stored,
    a_missing_key_is_refused_only_where_it_is_needed,
    bare_and_quoted_are_the_same_key,
    the_order_of_fields_and_white_space_do_not_count_and_the_service_gets_what_was_sent,
    method_path_query_and_body_count,
    bodies_that_are_not_json_are_compared_by_their_bytes,
    the_same_key_of_another_caller_is_another_key,
    a_caller_nobody_knows_is_refused,
    what_does_not_mutate_is_passed_on,
    patch_and_delete_are_held_to_the_contract,
    an_operation_that_began_is_stored_whatever_its_outcome,
    a_request_that_did_not_begin_can_be_retried_under_its_key,
    a_large_body_is_refused_with_or_without_its_length,
);

/// S2.31, S2.6, S2.35: the replay is identical byte for byte, and there is no second charge.
async fn a_retry_gets_the_same_bytes_and_nothing_is_charged_again(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::money());
    let first = world.send(pay("abc", 5)).await;
    assert_eq!(first.status, 201);
    assert!(!first.headers.contains_key("idempotency-replayed"));
    for _ in 0..2 {
        let again = world.send(pay("abc", 5)).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert!(again.is_replayed());
        assert_eq!(again.headers["content-type"], first.headers["content-type"]);
        assert_eq!(again.headers["location"], "/payments/1");
        assert!(!again.headers.contains_key("set-cookie"));
        // Seven days after noon of 2026-01-01.
        assert_eq!(again.headers["idempotency-expires"], "Thu, 08 Jan 2026 12:00:00 GMT");
    }
    assert_eq!(world.shop.charges(), 1);
    let stats = world.layer.stats();
    assert_eq!((stats.new, stats.replays, stats.stored), (1, 2, 1));
}

/// G2.1, S2.32, S2.12, S2.36.
async fn another_amount_is_a_conflict_that_tells_what_is_stored(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let first = world.send(pay("abc", 5)).await;
    let other = world.send(pay("abc", 6)).await;
    assert_eq!(other.status, 422);
    assert_eq!(other.code(), "idempotency_key_conflict");
    let stored = &other.json()["storedRequest"];
    assert_eq!(stored["kind"], "request");
    assert_eq!((&stored["method"], &stored["path"]), (&json!("POST"), &json!("/payments")));
    assert_eq!(stored["firstSeenAt"], "2026-01-01T12:00:00.000Z");
    assert_eq!(stored["differingPaths"], json!(["/amount"]));
    assert_eq!(stored["fingerprint"].as_str().unwrap().len(), 64);
    assert!(stored["id"].as_str().unwrap().starts_with("req_"));
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(world.send(pay("abc", 5)).await.body, first.body, "a conflict changes nothing");
    assert_eq!(world.layer.stats().conflicts, 1);
}

/// G2.2, S2.33, S2.13: one charge, and both callers receive the same body.
async fn two_at_once_charge_once_and_get_the_same_body(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let one = world.send_aside(pay("abc", 5));
    let two = world.send_aside(pay("abc", 5));
    until(|| world.layer.stats().waits == 1).await;
    world.shop.gate.add_permits(1);
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!((one.status, &one.body), (two.status, &two.body));
    assert_eq!(one.status, 201);
    assert!(one.is_replayed() != two.is_replayed(), "one of them was first");
    assert_eq!(world.shop.charges(), 1);
}

/// G2.2, S2.13.
async fn a_caller_that_stops_waiting_gets_request_in_progress(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    let hasty = world.send(also(pay("abc", 5), "prefer", "wait=0")).await;
    assert_eq!(hasty.status, 409);
    assert_eq!(hasty.code(), "request_in_progress");
    assert_eq!(hasty.headers["retry-after"], "1");
    assert_eq!(hasty.json()["retryable"], true);
    let other = world.send(also(pay("abc", 6), "prefer", "wait=0")).await;
    assert_eq!(other.code(), "idempotency_key_conflict", "another request is told so at once");
    world.shop.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
    let stats = world.layer.stats();
    assert_eq!((stats.waits, stats.in_progress), (0, 1));
}

/// S2.30: a retry that reaches another node sees the same store.
async fn another_node_waits_for_the_first_and_gives_its_answer(stage: StoreAndClock) {
    let world = gated_world(&stage, Policy::default());
    let other = world.other_node(stage.store.clone(), Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    let second = other.send_aside(pay("abc", 5));
    until(|| other.layer.stats().waits == 1).await;
    world.shop.gate.add_permits(1);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(first.body, second.body);
    assert!(second.is_replayed());
    assert_eq!(world.shop.charges(), 1);
}

/// S2.29: a key in its grace period gets 410.
async fn an_expired_key_is_refused_in_its_grace_and_then_new(stage: StoreAndClock) {
    let world = World::new(&stage, Policy { grace: 10 * SECOND, ..Policy::default() });
    world.send(pay("abc", 5)).await;
    stage.clock.advance(DAY - SECOND);
    assert!(world.send(pay("abc", 5)).await.is_replayed());
    stage.clock.advance(SECOND);
    let gone = world.send(pay("abc", 5)).await;
    assert_eq!((gone.status.as_u16(), gone.code().as_str()), (410, "idempotency_key_expired"));
    assert_eq!(world.shop.charges(), 1);
    stage.clock.advance(10 * SECOND);
    assert_eq!(world.send(pay("abc", 5)).await.json()["charge"], 2);
    assert_eq!(world.layer.stats().expired, 1);
}

/// S2.5, S2.11, S2.23, S2.24, S2.25, S2.39: exactly 24 hours. A late retry that names its first sending is not silently
/// run again.
async fn an_expired_key_is_new_unless_the_caller_says_that_it_is_late(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(pay("abc", 5)).await;
    stage.clock.advance(DAY);
    let late = also(pay("abc", 5), "idempotency-first-sent", "Thu, 01 Jan 2026 11:59:59 GMT");
    let refused = world.send(late).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (412, "idempotency_window_passed"));
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(world.layer.stats().window_passed, 1);
    let timely = also(pay("abc", 5), "idempotency-first-sent", "Thu, 01 Jan 2026 12:00:00 GMT");
    assert_eq!(world.send(timely).await.json()["charge"], 2);
    let unknown = also(pay("never-seen", 5), "idempotency-first-sent", "Mon, 01 Dec 2025 12:00:00 GMT");
    assert_eq!(world.send(unknown).await.code(), "idempotency_window_passed");
}

async fn a_late_request_whose_key_is_known_is_answered(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let old = "Mon, 29 Dec 2025 12:00:00 GMT";
    let first = world.send(pay("abc", 5)).await;
    let again = world.send(also(pay("abc", 5), "idempotency-first-sent", old)).await;
    assert!(again.is_replayed());
    assert_eq!(again.body, first.body);
}

async fn a_first_sending_that_is_no_date_is_refused(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let odd = also(pay("abc", 5), "idempotency-first-sent", "yesterday");
    let twice = also(pay("abc", 5), "idempotency-first-sent", "Thu, 01 Jan 2026 12:00:00 GMT");
    let twice = also(twice, "idempotency-first-sent", "Thu, 01 Jan 2026 12:00:00 GMT");
    for bad in [odd, twice] {
        let refused = world.send(bad).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "invalid_first_sent"));
    }
    assert_eq!(book(&stage).find_request(&anna(), &key("abc")).await.unwrap(), None);
    assert_eq!(world.shop.charges(), 0);
}

/// S2.9: 1 to 255 printable ASCII characters; anything else is refused before the operation begins.
async fn an_invalid_key_is_refused_before_anything_is_stored(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let long = "k".repeat(256);
    let mut bad: Vec<_> =
        ["", " ", "\"\"", "\"open", "\"a\" b", long.as_str()].iter().map(|bad| pay(bad, 5)).collect();
    for bytes in [&b"\xc3\xa9"[..], b"a\tb", b"\xff"] {
        let mut request = pay("x", 5);
        request.headers_mut().insert("idempotency-key", HeaderValue::from_bytes(bytes).unwrap());
        bad.push(request);
    }
    bad.push(also(pay("abc", 5), "idempotency-key", "abc"));
    for request in bad {
        let shown = format!("{:?}", request.headers());
        let refused = world.send(request).await;
        assert_eq!(refused.status, 400, "{shown}");
        assert_eq!(refused.code(), "invalid_idempotency_key", "{shown}");
    }
    assert_eq!(world.shop.charges(), 0);
    assert_eq!(book(&stage).find_oldest_request().await.unwrap(), None);
}

/// S2.8: a key is explicitly required or optional.
async fn a_missing_key_is_refused_only_where_it_is_needed(stage: StoreAndClock) {
    let keyless = || with_headers("POST", "/payments", &[("authorization", "Bearer anna")], "{}");
    let strict = World::new(&stage, Policy::money());
    let refused = strict.send(keyless()).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "idempotency_key_missing"));
    assert_eq!(strict.shop.charges(), 0);
    let lenient = World::new(&stage, Policy::default());
    lenient.send(keyless()).await;
    lenient.send(keyless()).await;
    assert_eq!(lenient.shop.charges(), 2);
    assert_eq!(lenient.shop.operations(), [(None, false), (None, false)]);
}

/// S2.7.
async fn bare_and_quoted_are_the_same_key(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(pay("abc", 5)).await;
    assert!(world.send(pay("\"abc\"", 5)).await.is_replayed());
    world.send(pay(r#""a\"b""#, 5)).await;
    assert!(world.send(pay("a\"b", 5)).await.is_replayed());
    assert_eq!(world.shop.charges(), 2);
}

/// S2.4, S2.28: the canonical form is compared, so middleware that reorders fields changes nothing.
async fn the_order_of_fields_and_white_space_do_not_count_and_the_service_gets_what_was_sent(
    stage: StoreAndClock,
) {
    let world = World::new(&stage, Policy::default());
    let body = "{ \"to\":\"bob\",\n \"amount\": 5.0 }";
    world.send(request("POST", "/payments", "abc", body)).await;
    assert!(
        world.send(request("POST", "/payments", "abc", r#"{"amount":5,"to":"bob"}"#)).await.is_replayed()
    );
    let with_header = also(request("POST", "/payments", "abc", body), "x-forwarded-for", "10.0.0.1");
    assert!(world.send(with_header).await.is_replayed());
    assert_eq!(world.shop.bodies(), [body]);
}

/// S2.4.
async fn method_path_query_and_body_count(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(request("POST", "/payments?a=1", "abc", "{}")).await;
    for other in [
        request("PATCH", "/payments?a=1", "abc", "{}"),
        request("POST", "/refunds?a=1", "abc", "{}"),
        request("POST", "/payments?a=2", "abc", "{}"),
        request("POST", "/payments", "abc", "{}"),
        request("POST", "/payments?a=1", "abc", r#"{"a":null}"#),
        request("POST", "/payments?a=1", "abc", ""),
    ] {
        let refused = world.send(other).await;
        assert_eq!(refused.code(), "idempotency_key_conflict");
        assert_eq!(refused.json()["storedRequest"]["path"], "/payments?a=1");
    }
    assert_eq!(world.shop.charges(), 1);
}

async fn bodies_that_are_not_json_are_compared_by_their_bytes(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(request("POST", "/payments", "abc", "amount=5")).await;
    assert!(world.send(request("POST", "/payments", "abc", "amount=5")).await.is_replayed());
    let refused = world.send(request("POST", "/payments", "abc", "amount=6")).await;
    assert_eq!(refused.json()["storedRequest"]["differingPaths"], json!([""]));
}

/// S2.7, S2.10: scoped to the credential.
async fn the_same_key_of_another_caller_is_another_key(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(pay("abc", 5)).await;
    let bert = [("authorization", "Bearer bert"), ("idempotency-key", "abc")];
    let other = world.send(with_headers("POST", "/payments", &bert, "{}")).await;
    assert_eq!(other.json()["charge"], 2);
}

async fn a_caller_nobody_knows_is_refused(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let refused = world.send(with_headers("POST", "/payments", &[("idempotency-key", "abc")], "{}")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "caller_unknown"));
    assert_eq!(world.shop.charges(), 0);
}

async fn what_does_not_mutate_is_passed_on(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::money());
    for method in ["GET", "HEAD", "PUT", "OPTIONS"] {
        for bad_or_good in ["abc", ""] {
            let answer = world.send(request(method, "/payments", bad_or_good, "")).await;
            assert_eq!(answer.status, 201, "{method}");
            assert!(!answer.is_replayed());
        }
    }
    assert_eq!(world.shop.charges(), 8);
    assert_eq!(book(&stage).find_oldest_request().await.unwrap(), None);
}

async fn patch_and_delete_are_held_to_the_contract(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::money());
    for method in ["PATCH", "DELETE"] {
        world.send(request(method, "/payments", method, "")).await;
        assert!(world.send(request(method, "/payments", method, "")).await.is_replayed());
    }
    assert_eq!(world.shop.charges(), 2);
}

/// G2.4: a failure is stored too, 5xx included.
async fn an_operation_that_began_is_stored_whatever_its_outcome(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    for status in [200, 202, 204, 303, 402, 422, 500, 502, 503] {
        world.shop.answers_status(status);
        let key = format!("began-{status}");
        let before = world.shop.charges();
        let first = world.send(pay(&key, 5)).await;
        let again = world.send(pay(&key, 5)).await;
        assert_eq!(again.status, status);
        assert_eq!(again.body, first.body);
        assert!(again.is_replayed());
        assert_eq!(world.shop.charges(), before + 1, "{status}");
    }
}

/// G2.4: a refusal before the operation began is not stored.
async fn a_request_that_did_not_begin_can_be_retried_under_its_key(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    for status in [400, 401, 403, 404, 405, 406, 409, 411, 412, 413, 415, 428, 429] {
        let key = format!("refused-{status}");
        world.shop.answers_status(status);
        let refused = world.send(pay(&key, 5)).await;
        assert_eq!(refused.status, status);
        assert!(!refused.body.is_empty());
        world.shop.answers_status(200);
        let tried = world.send(pay(&key, 6)).await;
        assert_eq!(tried.status, 200, "{status}: even another body is welcome");
        assert!(!tried.is_replayed());
    }
}

async fn a_large_body_is_refused_with_or_without_its_length(stage: StoreAndClock) {
    let world = World::new(&stage, Policy { max_body_bytes: 10, ..Policy::default() });
    let whole = request("POST", "/payments", "abc", "12345678901");
    let chunks = ["123456", "78901"].map(Ok::<_, std::io::Error>);
    let chunked = axum::body::Body::from_stream(futures_util::stream::iter(chunks));
    let (parts, _) = request("POST", "/payments", "abc", "").into_parts();
    for large in [whole, axum::extract::Request::from_parts(parts, chunked)] {
        let refused = world.send(large).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (413, "body_too_large"));
    }
    assert_eq!(book(&stage).find_oldest_request().await.unwrap(), None);
    assert_eq!(world.send(request("POST", "/payments", "abc", "1234567890")).await.status, 201);
}
