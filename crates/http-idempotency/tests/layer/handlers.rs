//! Handlers that panic, fail, break off, send long responses, or decide what is stored.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Extensions, Response};
use bytes::Bytes;
use hapax_engine::model::{RequestScope, RequestState};
use hapax_http_idempotency::{
    ByHeader, Code, Event, FromExtensions, FullUri, IdempotencyLayer, Keep, KeyNeed, Observe, OneCaller,
    Outcome, PlainProblems, Policy, Problem, Problems, limits,
};
use http_body_util::Full;
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{
    Shop, StoreAndClock, World, also, anna, answer, gated_world, key, memory, on_every_store, pay, receive,
    request, until, with_headers,
};

on_every_store!(
    a_panic_counts_as_an_outcome,
    a_service_that_fails_or_breaks_off_is_answered_once,
    a_large_answer_goes_out_whole_and_is_not_done_again,
    a_confidential_answer_is_given_once_and_kept_nowhere,
    a_handler_may_overrule_what_its_status_tells,
    a_handler_is_told_its_operation,
    how_long_an_answer_is_kept_may_be_said_for_one_request,
    whether_a_key_is_needed_may_be_said_for_one_request,
    headers_that_a_policy_adds_come_back,
    the_full_path_counts_where_a_router_cuts_it,
);

async fn a_panic_counts_as_an_outcome(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.shop.answers(|_| panic!("planned"));
    let first = world.send(pay("abc", 5)).await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (500, "handler_failed"));
    assert!(!String::from_utf8_lossy(&first.body).contains("planned"), "insides stay inside");
    world.shop.answers_status(200);
    let again = world.send(pay("abc", 5)).await;
    assert_eq!(again.body, first.body);
    assert!(again.is_replayed());
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(world.layer.stats().failed, 1);
    assert_eq!(world.layer.in_flight(), 0);
}

async fn a_service_that_fails_or_breaks_off_is_answered_once(stage: StoreAndClock) {
    let layer = IdempotencyLayer::new(stage.store.clone(), Policy::default()).unwrap();
    let layer = layer.identified_by(ByHeader::authorization());
    let fails =
        layer.layer(service_fn(async |_: Request| Err::<Response<Body>, _>(std::io::Error::other("secret"))));
    let breaks_off = layer.layer(service_fn(async |_: Request| {
        let chunks = [Ok("half"), Err(std::io::Error::other("secret"))];
        Ok::<_, Infallible>(Response::new(Body::from_stream(futures_util::stream::iter(chunks))))
    }));
    for again in [false, true] {
        let failed = receive(fails.clone().oneshot(pay("fails", 5)).await.unwrap()).await;
        let broken = receive(breaks_off.clone().oneshot(pay("breaks-off", 5)).await.unwrap()).await;
        for answer in [failed, broken] {
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (500, "handler_failed"));
            assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
            assert_eq!(answer.is_replayed(), again);
        }
    }
    // Without a key, the handler's failure is passed on.
    let keyless = with_headers("POST", "/payments", &[], "");
    assert_eq!(fails.oneshot(keyless).await.unwrap_err().to_string(), "secret");
}

async fn a_large_answer_goes_out_whole_and_is_not_done_again(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let at_most = limits::MAX_STORED_ANSWER_BYTES;
    world.shop.answers(move |_| answer(200, &"x".repeat(at_most)));
    assert_eq!(world.send(pay("fits", 5)).await.body.len(), at_most);
    assert_eq!(world.send(pay("fits", 5)).await.body.len(), at_most);
    world.shop.answers(move |_| answer(200, &"x".repeat(at_most + 1)));
    let first = world.send(pay("abc", 5)).await;
    assert_eq!((first.status.as_u16(), first.body.len()), (200, at_most + 1));
    let again = world.send(pay("abc", 5)).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "answer_not_kept"));
    assert_eq!(again.json()["storedStatus"], 200);
    let (Some(id), _) = world.shop.operations()[1] else { panic!("it has an operation") };
    assert_eq!(again.json()["operationId"], id.to_string());
    assert_eq!(world.shop.charges(), 2);
    assert_eq!(world.layer.stats().not_kept, 1);
}

async fn a_confidential_answer_is_given_once_and_kept_nowhere(stage: StoreAndClock) {
    let layer = IdempotencyLayer::new(stage.store.clone(), Policy::default()).unwrap();
    let layer = layer.identified_by(ByHeader::authorization());
    let world = World::with(layer.clone().confidential(), Arc::new(Shop::open()));
    let first = world.send(pay("abc", 5)).await;
    assert_eq!((first.status.as_u16(), first.json()["charge"].as_u64()), (201, Some(1)));
    let kept =
        stage.store.request_key_store().unwrap().find_request(&anna(), &key("abc")).await.unwrap().unwrap();
    let RequestState::Answered { answer: kept, .. } = kept.state else { panic!("it is answered") };
    assert_eq!((kept.status, kept.body), (201, None));
    for _ in 0..2 {
        let again = world.send(pay("abc", 5)).await;
        assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "answer_not_kept"));
        assert_eq!(
            (&again.json()["storedStatus"], &again.json()["location"]),
            (&201.into(), &"/payments/1".into())
        );
        assert!(again.json()["detail"].as_str().unwrap().contains("secret"));
    }
    assert_eq!(world.send(pay("abc", 6)).await.code(), "idempotency_key_conflict");
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(layer.in_flight(), 0, "copies of a layer share what they know");
    // A failed response contains no secret.
    world.shop.answers_status(500);
    let failed = world.send(pay("fails", 5)).await;
    assert_eq!(world.send(pay("fails", 5)).await.body, failed.body);
    world.shop.answers_status(400);
    assert_eq!(world.send(pay("refused", 5)).await.status, 400);
    world.shop.answers_status(201);
    assert_eq!(world.send(pay("refused", 5)).await.status, 201, "nothing began");
}

async fn a_handler_may_overrule_what_its_status_tells(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    for (status, said, is_stored) in [(503, Outcome::Release, false), (404, Outcome::Store, true)] {
        world.shop.answers(move |_| {
            let mut response = answer(status, "{}");
            response.extensions_mut().insert(said);
            response
        });
        let key = format!("overruled-{status}");
        world.send(pay(&key, 5)).await;
        assert_eq!(world.send(pay(&key, 5)).await.is_replayed(), is_stored);
    }
}

async fn a_handler_is_told_its_operation(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    world.send(pay("abc", 5)).await;
    world.send(pay("def", 5)).await;
    let [(Some(one), false), (Some(other), false)] = world.shop.operations()[..] else {
        panic!("both have one")
    };
    assert_ne!(one, other);
}

/// S2.5, S2.11.
async fn how_long_an_answer_is_kept_may_be_said_for_one_request(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let mut asked = pay("by-request", 5);
    asked.extensions_mut().insert(Keep(limits::SEVEN_DAYS));
    world.send(asked).await;
    let replayed = world.send(pay("by-request", 5)).await;
    assert_eq!(replayed.headers["idempotency-expires"], "Thu, 08 Jan 2026 12:00:00 GMT");
    for (key, keep, expires) in [
        ("by-response", limits::SEVEN_DAYS, "Thu, 08 Jan 2026 12:00:00 GMT"),
        ("too-short", Duration::from_secs(60), "Fri, 02 Jan 2026 12:00:00 GMT"),
    ] {
        world.shop.answers(move |_| {
            let mut response = answer(200, "{}");
            response.extensions_mut().insert(Keep(keep));
            response
        });
        world.send(pay(key, 5)).await;
        assert_eq!(world.send(pay(key, 5)).await.headers["idempotency-expires"], expires);
    }
}

/// S2.8.
async fn whether_a_key_is_needed_may_be_said_for_one_request(stage: StoreAndClock) {
    let layer = IdempotencyLayer::new(stage.store.clone(), Policy::default()).unwrap();
    let layer = layer.identified_by(ByHeader::authorization());
    let layer = layer.needed_by(|parts| (parts.uri.path() == "/payments").then_some(KeyNeed::Required));
    let world = World::with(layer, Arc::new(Shop::open()));
    let keyless = |path| with_headers("POST", path, &[], "{}");
    assert_eq!(world.send(keyless("/payments")).await.code(), "idempotency_key_missing");
    assert_eq!(world.send(keyless("/refunds")).await.status, 201);
    let mut excepted = keyless("/payments");
    excepted.extensions_mut().insert(KeyNeed::Optional);
    assert_eq!(world.send(excepted).await.status, 201);
    for _ in 0..2 {
        let mut ignored = pay("abc", 5);
        ignored.extensions_mut().insert(KeyNeed::Ignored);
        assert!(!world.send(ignored).await.is_replayed());
    }
}

async fn headers_that_a_policy_adds_come_back(stage: StoreAndClock) {
    let keep_headers = vec!["set-cookie".parse().unwrap()];
    let world = World::new(&stage, Policy { keep_headers, ..Policy::default() });
    world.send(pay("abc", 5)).await;
    assert_eq!(world.send(pay("abc", 5)).await.headers["set-cookie"], "a=b");
}

async fn the_full_path_counts_where_a_router_cuts_it(stage: StoreAndClock) {
    let world = World::new(&stage, Policy::default());
    let below = |prefix: &str| {
        let mut request = pay("abc", 5);
        request.extensions_mut().insert(FullUri(format!("{prefix}/payments").parse().unwrap()));
        request
    };
    world.send(below("/shop-1")).await;
    assert!(world.send(below("/shop-1")).await.is_replayed());
    assert_eq!(world.send(below("/shop-2")).await.code(), "idempotency_key_conflict");
}

struct TraceHeader;

impl Problems for TraceHeader {
    fn write(&self, problem: &Problem, extensions: &Extensions) -> Response<Bytes> {
        let mut problem = problem.clone();
        let trace = extensions.get::<&str>().copied().unwrap_or("none");
        problem.members.insert("traceId".into(), trace.into());
        PlainProblems.write(&problem, extensions)
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(RequestScope, Event)>>>);

impl Observe for Seen {
    fn saw(&self, scope: &RequestScope, event: Event) {
        self.0.lock().unwrap().push((scope.clone(), event));
    }
}

/// S2.35, S2.36, S2.38: observers can label events by credential.
#[tokio::test]
async fn a_service_writes_refusals_its_own_way_and_is_told_of_events() {
    let seen = Seen::default();
    let layer = IdempotencyLayer::new(memory().store, Policy::default()).unwrap();
    let layer =
        layer.identified_by(ByHeader::authorization()).observed_by(seen.clone()).refusing_with(TraceHeader);
    let world = World::with(layer, Arc::new(Shop::open()));
    world.send(pay("abc", 5)).await;
    world.send(pay("abc", 5)).await;
    let mut other = pay("abc", 6);
    other.extensions_mut().insert("trace-7");
    assert_eq!(world.send(other).await.json()["traceId"], "trace-7");
    world.shop.answers(|_| panic!("planned"));
    let mut panics = pay("def", 6);
    panics.extensions_mut().insert("trace-8");
    assert_eq!(world.send(panics).await.json()["traceId"], "trace-8");
    let seen = seen.0.lock().unwrap().clone();
    let expected = [
        Event::Began,
        Event::Stored,
        Event::Replayed,
        Event::Conflicted,
        Event::Began,
        Event::Failed,
        Event::Stored,
    ];
    assert_eq!(seen, expected.map(|event| (anna(), event)));
    assert_eq!(Code::KeyConflict.status(), 422);
}

#[tokio::test]
async fn callers_may_be_named_by_a_layer_that_authenticates_or_be_all_the_same() {
    let layer = IdempotencyLayer::new(memory().store, Policy::default()).unwrap();
    let by_default = World::with(layer.clone(), Arc::new(Shop::open()));
    assert_eq!(by_default.send(pay("abc", 5)).await.code(), "caller_unknown");
    let mut named = pay("abc", 5);
    named.extensions_mut().insert(OneCaller::everybody().0);
    assert_eq!(by_default.send(named).await.status, 201);
    let same = World::with(layer.clone().identified_by(OneCaller::everybody()), Arc::new(Shop::open()));
    assert!(same.send(pay("abc", 5)).await.is_replayed());
    let back = World::with(layer.identified_by(FromExtensions), Arc::new(Shop::open()));
    assert_eq!(back.send(pay("abc", 5)).await.code(), "caller_unknown");
}

/// Any tower service works, not only axum's.
#[tokio::test]
async fn a_plain_tower_service_is_protected_as_well() {
    let layer = IdempotencyLayer::new(memory().store, Policy::default()).unwrap();
    let service = layer.identified_by(OneCaller::everybody()).layer(service_fn(
        async |request: axum::http::Request<Full<Bytes>>| {
            Ok::<_, Infallible>(axum::http::Response::new(request.into_body()))
        },
    ));
    for again in [false, true] {
        let (parts, _) = pay("abc", 5).into_parts();
        let request = axum::http::Request::from_parts(parts, Full::from("hello"));
        let answer = receive(service.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(answer.body, "hello");
        assert_eq!(answer.is_replayed(), again);
    }
}

/// A wait ends after `max_wait`, or after the caller's preference.
#[tokio::test(start_paused = true)]
async fn a_wait_is_as_long_as_promised() {
    let world = gated_world(&memory(), Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    for (prefer, seconds) in
        [(None, 10), (Some("wait=3"), 3), (Some("wait=600"), 60), (Some("wait=soon"), 10)]
    {
        let began = tokio::time::Instant::now();
        let request = match prefer {
            Some(prefer) => also(pay("abc", 5), "prefer", prefer),
            None => pay("abc", 5),
        };
        assert_eq!(world.send(request).await.code(), "request_in_progress");
        assert_eq!(began.elapsed().as_secs(), seconds, "{prefer:?}");
    }
    world.shop.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
    until(|| world.layer.in_flight() == 0).await;
}

/// No notification reports the end of a request in another process, so the layer polls the store: soon at first, then
/// less often.
#[tokio::test(start_paused = true)]
async fn a_wait_for_another_node_ends_soon_after_it_has_answered() {
    let stage = memory();
    let world = gated_world(&stage, Policy::default());
    let other = world.other_node(stage.store.clone(), Policy::default());
    let first = world.send_aside(pay("abc", 5));
    world.shop.until_began(1).await;
    let second = other.send_aside(pay("abc", 5));
    until(|| other.layer.stats().waits == 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.shop.gate.add_permits(1);
    first.await.unwrap();
    let answered = tokio::time::Instant::now();
    assert!(second.await.unwrap().is_replayed());
    assert!(answered.elapsed() <= limits::LONGEST_POLL);
}

#[tokio::test]
async fn a_body_that_breaks_off_begins_nothing() {
    let world = World::new(&memory(), Policy::default());
    let chunks = [Ok("{\"amount\":"), Err(std::io::Error::other("gone"))];
    let (parts, _) = request("POST", "/payments", "abc", "").into_parts();
    let broken = Request::from_parts(parts, Body::from_stream(futures_util::stream::iter(chunks)));
    let refused = world.send(broken).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "body_unreadable"));
    assert_eq!(world.shop.charges(), 0);
}

/// Each route of a router may have the layer or not.
#[tokio::test]
async fn a_layer_serves_several_routers() {
    let world = World::new(&memory(), Policy::default());
    let app: Router = Router::new().merge(world.app.clone());
    for _ in 0..2 {
        let answer = receive(app.clone().oneshot(pay("abc", 5)).await.unwrap()).await;
        assert_eq!(answer.status, 201);
    }
    assert_eq!(world.shop.charges(), 1);
}
