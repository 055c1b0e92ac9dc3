//! Random requests and catalog changes, sent to the store and to the memory store: both answer alike.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{BeginOutcome, CatalogKind, RequestEnd, WriteToken};
use hapax_engine::store::{KeyUsageDelta, ListCatalogItems, PutOutcome, ReleaseKey, ReleaseOutcome, Store};

use crate::fixture::*;

const REQUESTS: usize = 1_000;

/// Outcomes that the random requests must reach for the comparison to mean anything.
const WANTED: [&str; 15] = [
    "begun: yours",
    "begun: taken over",
    "begun: in flight",
    "begun: answered",
    "begun: conflict",
    "begun: expired",
    "finish: true",
    "finish: false",
    "release: released",
    "release: in use",
    "release: no such key",
    "put: put",
    "put: exists",
    "put: name taken",
    "put: stale or missing",
];

/// The memory store defines the behaviour that the documentation of request keys and the catalog leaves open.
pub(super) async fn random_requests_are_answered_as_by_the_memory_store(t: &TestStore) {
    let model: Arc<dyn Store> = Arc::new(MemoryStore::new(t.clock.clone()));
    let mut rng = Rng::with_seed(7);
    let (mut begun, mut met): (Vec<Ask<'_>>, _) = (Vec::new(), BTreeSet::new());
    for n in 0..REQUESTS {
        match rng.u32(..100) {
            0..35 => {
                let ask = draw(t, &mut rng, &begun);
                met.insert(begin(t, &*model, &ask, n).await);
                begun.push(ask);
            }
            35..60 => drop(met.insert(finish(t, &*model, &mut rng, &begun, n).await)),
            60..66 => {
                let place = draw(t, &mut rng, &[]).place();
                let note = t.noted_release(&place);
                let request = ReleaseKey { place, note };
                let expected = model.request_key_store().unwrap().release_key(request.clone()).await.unwrap();
                assert_eq!(t.book().release_key(request).await.unwrap(), expected, "request {n}");
                met.insert(match expected {
                    ReleaseOutcome::Released => "release: released",
                    ReleaseOutcome::InUse { .. } => "release: in use",
                    ReleaseOutcome::NoSuchKey => "release: no such key",
                });
            }
            66..70 => {
                let place = draw(t, &mut rng, &[]).place();
                let counted = vec![KeyUsageDelta { place, uses: uses(rng.u64(..3), rng.u64(..3)) }];
                model.request_key_store().unwrap().add_key_usage(counted.clone()).await.unwrap();
                t.book().add_key_usage(counted).await.unwrap();
            }
            70..72 => {
                let purged = model.request_key_store().unwrap().purge_requests(1_000).await.unwrap();
                assert_eq!(t.book().purge_requests(1_000).await.unwrap(), purged, "request {n}");
            }
            72..85 => drop(met.insert(put(t, &*model, &mut rng, n).await)),
            _ => t.pass(*rng.choice(&[SECOND, HOLD / 2, HOLD, HOUR, KEEP]).unwrap()),
        }
        same_key(t, &*model, &draw(t, &mut rng, &[]), n).await;
    }
    same_whole(t, &*model).await;
    let missing: Vec<_> = WANTED.iter().filter(|label| !met.contains(*label)).collect();
    assert!(missing.is_empty(), "never met: {missing:?}");
}

/// Draws a request under one of a few keys: a new one, or one sent before.
fn draw<'a>(t: &'a TestStore, rng: &mut Rng, sent: &[Ask<'a>]) -> Ask<'a> {
    match rng.choice(sent).filter(|_| rng.u32(..4) == 0) {
        Some(again) => again.clone(),
        None => t
            .ask(["a", "b", "c"][rng.usize(..3)])
            .by(["shop", "bank"][rng.usize(..2)])
            .workspace(["default", "abroad"][rng.usize(..2)])
            .amount(if rng.u32(..4) == 0 { 2 } else { 1 }),
    }
}

async fn begin(t: &TestStore, model: &dyn Store, ask: &Ask<'_>, n: usize) -> &'static str {
    let expected = model.request_key_store().unwrap().begin_request(ask.request()).await.unwrap();
    assert_eq!(ask.send().await, expected, "request {n}");
    assert_eq!(t.now(), model.now());
    match expected {
        BeginOutcome::Acquired { is_taken_over: false, .. } => "begun: yours",
        BeginOutcome::Acquired { is_taken_over: true, .. } => "begun: taken over",
        BeginOutcome::InFlight { .. } => "begun: in flight",
        BeginOutcome::Answered(_) => "begun: answered",
        BeginOutcome::Conflict(_) => "begun: conflict",
        BeginOutcome::Expired { .. } => "begun: expired",
    }
}

async fn finish(
    t: &TestStore,
    model: &dyn Store,
    rng: &mut Rng,
    begun: &[Ask<'_>],
    n: usize,
) -> &'static str {
    // Usually one of the latest, which may still hold its key.
    let Some(ask) = begun.iter().rev().nth(rng.usize(..4)) else { return "finish: nothing" };
    let grace = *rng.choice(&[Duration::ZERO, GRACE]).unwrap();
    let end = match rng.u32(..4) {
        0 => RequestEnd::Released,
        _ => RequestEnd::Answered { answer: answer(&[n as u8]), keep_for: KEEP, grace },
    };
    let mut request = ask.end(end);
    if rng.u32(..10) == 0 {
        request.token = WriteToken::fresh();
    }
    let expected = model.request_key_store().unwrap().finish_request(request.clone()).await.unwrap();
    assert_eq!(t.book().finish_request(request).await.unwrap(), expected, "request {n}");
    if expected { "finish: true" } else { "finish: false" }
}

async fn put(t: &TestStore, model: &dyn Store, rng: &mut Rng, n: usize) -> &'static str {
    let draft = t
        .item(["1", "2", "3"][rng.usize(..3)], ["x", "y", "z"][rng.usize(..3)])
        .kind(CatalogKind::ALL[rng.usize(2..4)])
        .workspace(["default", "default", "abroad"][rng.usize(..3)])
        .body(&n.to_string())
        .note(t.noted(&n.to_string()));
    let draft = match rng.u32(..4) {
        0 => draft,
        _ => draft.over(rng.u64(..5)),
    };
    let request = draft.request();
    let seen = model.catalog().unwrap().find_item(request.kind, &request.id).await.unwrap();
    let draft = match seen.filter(|_| request.expected.is_some() && rng.bool()) {
        Some(seen) => draft.over(seen.version.get()),
        None => draft,
    };
    let expected = model.catalog().unwrap().put_item(draft.request()).await.unwrap();
    assert_eq!(draft.send().await, expected, "request {n}");
    match expected {
        PutOutcome::Put(_) => "put: put",
        PutOutcome::Exists(_) => "put: exists",
        PutOutcome::NameTaken(_) => "put: name taken",
        PutOutcome::Stale(_) | PutOutcome::Missing => "put: stale or missing",
    }
}

async fn same_key(t: &TestStore, model: &dyn Store, ask: &Ask<'_>, n: usize) {
    let request = ask.request();
    let book = model.request_key_store().unwrap();
    let expected = book.find_request(&request.scope, &request.key).await.unwrap();
    assert_eq!(ask.find().await, expected, "after request {n}");
    let expected = book.find_key_usage(&ask.place()).await.unwrap();
    assert_eq!(t.uses(&ask.place()).await, expected, "after request {n}");
}

async fn same_whole(t: &TestStore, model: &dyn Store) {
    let oldest = model.request_key_store().unwrap().find_oldest_request().await.unwrap();
    assert_eq!(t.book().find_oldest_request().await.unwrap(), oldest);
    for kind in CatalogKind::ALL {
        let all = ListCatalogItems { kind, ..all_items() };
        let expected = model.catalog().unwrap().list_items(all.clone()).await.unwrap();
        assert_eq!(t.catalog().list_items(all).await.unwrap(), expected);
    }
    let expected = model.list_journal(t.all_notes()).await.unwrap();
    let expected: Vec<_> = expected.into_iter().map(|placed| placed.note).collect();
    assert_eq!(t.notes().await, expected);
}
