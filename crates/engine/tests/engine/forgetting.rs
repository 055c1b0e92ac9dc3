//! Retention: what an engine deletes by itself, and when.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Bench;
use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{
    BeginOutcome, BeginRequest, EntityId, EntityStep, EntityWorkflow, Fingerprint, FinishRequest,
    IdempotencyKey, LeafDigests, Name, OperationId, RequestEnd, RequestId, RequestScope, RequestSummary,
    StoredAnswer, WorkspaceId, WriteToken,
};
use hapax_engine::runtime::{CodeOnlyHost, TransitionOutcome};
use hapax_engine::store::{ListOperations, Store};
use hapax_engine::{Ctx, EngineOptions, Failure};
use serde_json::json;

const KEEP: Duration = Duration::from_secs(3600);
const PURGE_EVERY: Duration = Duration::from_secs(60);

async fn bench(keep_runs_for: Option<Duration>) -> Bench {
    let bench =
        Bench::with(EngineOptions { keep_runs_for, purge_every: PURGE_EVERY, ..EngineOptions::default() });
    let step = |id, key, from: &str, to| EntityStep::new(id, key, &[from], to).unwrap();
    let steps = vec![step(10, "close", "open", "closed"), step(20, "reopen", "closed", "open")];
    let workflow = EntityWorkflow::new("tickets", "desk", "ticket", &["open", "closed"]).unwrap();
    let workflow = EntityWorkflow { steps, ..workflow };
    bench.engine.register_entity_workflow(workflow, Arc::new(CodeOnlyHost)).await.unwrap();
    bench
}

/// Each operation has its own millisecond, so that ids show the order.
async fn take(bench: &Bench, ticket: &str, step: &str) -> OperationId {
    bench.clock.advance(Duration::from_millis(1));
    match bench.engine.transition("ticket", ticket, step).await.unwrap() {
        TransitionOutcome::Done { operation, .. } => operation.id,
        other => panic!("{other:?}"),
    }
}

async fn operations(bench: &Bench, entity: Option<EntityId>) -> Vec<OperationId> {
    let request = ListOperations {
        workspace: WorkspaceId::default(),
        kind: entity.as_ref().map(|_| Name::new("type", "ticket").unwrap()),
        entity,
        step: None,
        status: None,
        before: None,
        limit: 10,
    };
    let listed = bench.engine.list_operations(request).await.unwrap();
    listed.into_iter().map(|operation| operation.id).collect()
}

/// Gives woken tasks their turns.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// The last operation of each step stays, whatever its age. Without a retention everything stays.
#[tokio::test]
async fn old_runs_and_operations_are_deleted_but_for_the_newest_of_each_step() {
    for keep in [Some(KEEP), None] {
        let bench = bench(keep).await;
        bench.engine.register("noop", |_: Ctx, (): ()| async { Ok::<_, Failure>(()) }).unwrap();
        let run = bench.engine.start("noop", &()).await.unwrap();
        run.result::<()>().await.unwrap();
        let _ = bench.engine.create_entity("ticket", "t", "open", &json!({})).await.unwrap();
        let mut all = Vec::new();
        for step in ["close", "reopen", "close", "reopen"] {
            all.push(take(&bench, "t", step).await);
        }
        all.reverse();
        bench.clock.advance(PURGE_EVERY);
        settle().await;
        assert_eq!(operations(&bench, None).await, all, "they are young");
        bench.clock.advance(KEEP);
        settle().await;
        let left = if keep.is_some() { &all[..2] } else { &all[..] };
        assert_eq!(operations(&bench, None).await, left);
        assert_eq!(bench.engine.get(run.id()).await.is_ok(), keep.is_none());
    }
}

/// A pass over more rows than one batch continues where it stopped.
#[tokio::test]
async fn operations_to_keep_do_not_hide_operations_to_purge() {
    let bench = bench(Some(KEEP)).await;
    for number in 0..MAX_PURGE {
        let id = format!("kept-{number}");
        let _ = bench.engine.create_entity("ticket", &id, "open", &json!({})).await.unwrap();
        take(&bench, &id, "close").await;
    }
    let _ = bench.engine.create_entity("ticket", "t", "open", &json!({})).await.unwrap();
    let mut all = Vec::new();
    for step in ["close", "reopen", "close"] {
        all.push(take(&bench, "t", step).await);
    }
    let ticket = || Some(EntityId::new("t").unwrap());
    assert_eq!(operations(&bench, ticket()).await.len(), 3);
    bench.clock.advance(KEEP + PURGE_EVERY);
    settle().await;
    assert_eq!(operations(&bench, ticket()).await, [all[2], all[1]]);
}

/// Regression: only a thousand rows were deleted per minute, against thousands of new keys per second. A pass
/// must continue until nothing is left.
#[tokio::test]
async fn one_pass_deletes_all_that_has_expired_however_much_it_is() {
    let bench = bench(None).await;
    let book = bench.store.request_key_store().unwrap();
    let count = 5 * MAX_PURGE + 7;
    for number in 0..count {
        let scope =
            RequestScope { workspace: WorkspaceId::default(), caller: Name::new("caller", "shop").unwrap() };
        let (key, token) = (IdempotencyKey::new(&format!("k-{number}")).unwrap(), WriteToken::fresh());
        let begin = BeginRequest {
            scope: scope.clone(),
            key: key.clone(),
            id: RequestId::new(bench.store.now()),
            fingerprint: Fingerprint::for_request("POST", "/orders", b"{}"),
            summary: RequestSummary {
                method: "POST".into(),
                path: "/orders".into(),
                outline: LeafDigests::default(),
            },
            token,
            hold_for: KEEP,
        };
        assert!(matches!(book.begin_request(begin).await.unwrap(), BeginOutcome::Acquired { .. }));
        let answer = StoredAnswer { status: 200, headers: Vec::new(), body: Some(b"{}".as_slice().into()) };
        let end = RequestEnd::Answered { answer, keep_for: KEEP, grace: Duration::ZERO };
        assert!(book.finish_request(FinishRequest { scope, key, token, end }).await.unwrap());
    }
    // Maintenance waits for its interval.
    settle().await;
    let behind = bench.engine.retention_lag();
    bench.clock.advance(KEEP + PURGE_EVERY);
    assert!(bench.engine.retention_lag() > behind + KEEP, "nobody has looked yet");
    settle().await;
    assert_eq!(bench.engine.stats().purged, count as u64, "nothing is left");
    assert_eq!(book.purge_requests(MAX_PURGE).await.unwrap(), 0);
    assert_eq!(bench.engine.retention_lag(), Duration::ZERO);
}
