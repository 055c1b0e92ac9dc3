//! Promises by key on several nodes: one promise per key, and no settlement is lost.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::limits::MAX_PROMISES_SCANNED;
use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyTarget, Promise, PromiseId, PromiseKey, PromiseRef, PromiseState,
    PromiseStatus, RunHead, RunId, RunStatus, SettleRequest, Settlement, WorkspaceId, WriteToken,
};
use hapax_engine::store::{
    CommitOutcome, CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromiseStore, Purge,
    SettleOutcome, SettlePromise,
};
use hapax_postgres_fixture::Database;
use hapax_store_conformance::fixture::{SECOND, TestStore, at_once, json, promise_of};
use hapax_store_conformance::must;
use hapax_store_postgres::{Migrated, PostgresOptions, migrate};
use tokio_postgres::error::SqlState;

use crate::fixture::{database, open, stage, until};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn nodes(url: &str) -> Vec<Arc<TestStore>> {
    let clock = Arc::new(ManualClock::default());
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let options = PostgresOptions::default().clock(clock.clone());
        nodes.push(Arc::new(TestStore::new(open(url, options).await, clock.clone())));
    }
    nodes
}

fn book(t: &TestStore) -> &dyn PromiseStore {
    t.store.promise_store().unwrap()
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

fn keyed(promise: Promise, text: &str) -> Promise {
    Promise { key: Some(PromiseKey { key: key(text), keep_for: DAY }), ..promise }
}

fn standalone(t: &TestStore, id: &str) -> Promise {
    Promise::pending(PromiseId::standalone(id).unwrap(), RunId::NONE, t.now(), None)
}

fn creation(promise: Promise) -> CreatePromise {
    CreatePromise { workspace: WorkspaceId::default(), promise, token: WriteToken::fresh() }
}

fn settlement(promise: PromiseRef) -> SettlePromise {
    SettlePromise {
        workspace: WorkspaceId::default(),
        promise,
        wish: SettleRequest::new(Settlement::Resolved(json("1"))),
        keep_for: Some(DAY),
        note: None,
        grant: None,
    }
}

async fn early(t: &TestStore) -> usize {
    let all = ListEarlySettlements { workspace: None, after: None, limit: 1_000 };
    book(t).list_early_settlements(all).await.unwrap().len()
}

/// Returns true if the run was woken.
fn is_woken(t: &TestStore, head: &RunHead) -> bool {
    head.arrivals > 0 && head.state.wake_at().is_some_and(|at| at <= t.now())
}

/// S4.26: of two creations under one key at once, on two connections, one wins and the other gets
/// the holder.
#[tokio::test(flavor = "multi_thread")]
async fn of_creators_of_one_key_on_two_nodes_one_wins() {
    let database = database().await;
    let nodes = nodes(&database.url()).await;
    for round in 0..15 {
        let name = format!("ch_{round}");
        let outcomes = at_once((0..6).map(|n| {
            let t = nodes[n % 2].clone();
            let request = creation(keyed(standalone(&t, &format!("{name}-{n}")), &name));
            async move { book(&t).create_promise(request).await.unwrap() }
        }))
        .await;
        let made: Vec<&PromiseId> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                CreateOutcome::Created(promise) => Some(&promise.id),
                CreateOutcome::Exists(_) | CreateOutcome::KeyConflict { .. } => None,
            })
            .collect();
        assert_eq!(made.len(), 1, "{outcomes:?}");
        let told = CreateOutcome::KeyConflict { existing: made[0].clone() };
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == told).count(), 5, "{outcomes:?}");
    }
    let of =
        ListPromises { workspace: WorkspaceId::default(), run: None, status: None, after: None, limit: 100 };
    assert_eq!(
        book(&nodes[0]).list_promises(of).await.unwrap().promises.len(),
        15,
        "who did not win left nothing"
    );
}

/// S4.26, G4.5: the same for runs; each loser is due at once and sees the holder of the key.
#[tokio::test(flavor = "multi_thread")]
async fn of_runs_that_want_one_key_on_two_nodes_one_has_it() {
    let database = database().await;
    let nodes = nodes(&database.url()).await;
    for round in 0..10 {
        let name = format!("ch_{round}");
        let mut writes = Vec::new();
        for n in 0..4 {
            // Only one node makes runs: each counts ids from the same beginning.
            let t = nodes[n % 2].clone();
            let run = nodes[0].driven().await;
            let promise = Promise::pending(promise_of(&run, "paid"), run.id(), t.now(), None);
            let write = t.write(&run).await.waits_for("paid", keyed(promise, &name)).parks().advance();
            writes.push((t, run, write));
        }
        let outcomes = at_once(writes.iter().map(|(t, _, write)| {
            let (t, write) = (t.clone(), write.clone());
            async move { t.store.commit_run(write).await.unwrap() }
        }))
        .await;
        let holder = book(&nodes[0]).find_promise_by_key(&WorkspaceId::default(), &key(&name)).await.unwrap();
        let holder = holder.expect("somebody has it").id;
        let mut winners = 0;
        for ((t, run, _), outcome) in writes.iter().zip(outcomes) {
            let opened = must!(outcome, CommitOutcome::Committed { opened, .. } => opened);
            let head = t.head(run).await;
            match opened.as_slice() {
                [] => {
                    winners += 1;
                    assert_eq!(promise_of(run, "paid"), holder);
                    assert!(!is_woken(t, &head));
                }
                [lost] => {
                    assert_eq!(lost.state, PromiseState::KeyTaken { by: holder.clone() });
                    assert!(is_woken(t, &head), "{head:?}");
                }
                more => panic!("{more:?}"),
            }
        }
        assert_eq!(winners, 1);
    }
}

/// G4.1: a settlement by key and its promise, at the same moment on two nodes, in any order: the
/// promise is settled and the run is woken, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_races_with_its_promise_is_never_lost() {
    let database = database().await;
    let nodes = nodes(&database.url()).await;
    let (mut kept, mut met) = (0, 0);
    for round in 0..60 {
        let (one, other) = (nodes[0].clone(), nodes[1].clone());
        let name = format!("ch_{round}");
        let run = one.driven().await;
        let promise = Promise::pending(promise_of(&run, "paid"), run.id(), one.now(), None);
        let write = one.write(&run).await.waits_for("paid", keyed(promise, &name)).parks().advance();
        let settling = settlement(PromiseRef::Key(key(&name)));
        let (advanced, settled) = tokio::join!(
            tokio::spawn({
                let one = one.clone();
                async move { one.store.commit_run(write).await.unwrap() }
            }),
            tokio::spawn(async move { other.store.settle_promise(settling).await.unwrap() }),
        );
        let opened = must!(advanced.unwrap(), CommitOutcome::Committed { opened, .. } => opened);
        match settled.unwrap() {
            SettleOutcome::KeptEarly { .. } => {
                kept += 1;
                assert_eq!(opened[0].state.status(), PromiseStatus::Resolved);
            }
            SettleOutcome::Settled { .. } => {
                met += 1;
                assert!(opened.is_empty());
            }
            other => panic!("{other:?}"),
        }
        let log = one.log(&run).await;
        assert_eq!(log.promises[0].state.status(), PromiseStatus::Resolved);
        assert_eq!(log.head.arrivals, 1);
        assert!(is_woken(&one, &log.head), "{:?}", log.head);
        assert_eq!(early(&one).await, 0, "it is used up");
    }
    assert_eq!(kept + met, 60);
}

/// The same for a promise without a run, and runs that begin to wait during the settlement.
#[tokio::test(flavor = "multi_thread")]
async fn who_begins_to_wait_while_a_promise_is_settled_is_told() {
    let database = database().await;
    let nodes = nodes(&database.url()).await;
    for round in 0..20 {
        let t = nodes[0].clone();
        let name = format!("prm_{round}");
        must!(
            book(&t).create_promise(creation(standalone(&t, &name))).await.unwrap(),
            CreateOutcome::Created(_)
        );
        let mut writes = Vec::new();
        for n in 0..3 {
            // Only one node makes runs: each counts ids from the same beginning.
            let t = nodes[n % 2].clone();
            let run = nodes[0].driven().await;
            let write = t.write(&run).await.waits_for("paid", standalone(&t, &name)).parks().advance();
            writes.push((t, run, write));
        }
        let advances = writes.iter().map(|(t, _, write)| {
            let (t, write) = (t.clone(), write.clone());
            tokio::spawn(async move {
                must!(t.store.commit_run(write).await.unwrap(), CommitOutcome::Committed { .. });
            })
        });
        let mut tasks: Vec<_> = advances.collect();
        let (other, id) = (nodes[1].clone(), PromiseId::from_stored(&name));
        tasks.insert(
            round % 4,
            tokio::spawn(async move {
                let settled = other.store.settle_promise(settlement(PromiseRef::Id(id))).await.unwrap();
                must!(settled, SettleOutcome::Settled { .. });
            }),
        );
        for task in tasks {
            task.await.unwrap();
        }
        for (t, run, _) in &writes {
            let log = t.log(run).await;
            assert_eq!(log.promises[0].state.status(), PromiseStatus::Resolved);
            assert!(is_woken(t, &log.head), "{:?}", log.head);
        }
    }
}

/// A creation waits for an uncommitted key of another connection, and then gets the result.
#[tokio::test(flavor = "multi_thread")]
async fn a_creator_waits_for_the_key_that_another_is_about_to_take() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default()).await);
    t.pending().await;
    let mut admin = database.connect().await.unwrap();
    for commits in [true, false] {
        let name = format!("ch_{commits}");
        let rival = admin.transaction().await.unwrap();
        let take = "INSERT INTO hapax.keys (workspace, kind, key, promise, first_seen_at)
            SELECT id, 1, $1, 'rival', 0 FROM hapax.workspaces WHERE name = 'default'";
        rival.execute(take, &[&name]).await.unwrap();
        let creating = tokio::spawn({
            let (t, request) = (t.clone(), creation(keyed(standalone(&t, &format!("prm_{commits}")), &name)));
            async move { book(&t).create_promise(request).await.unwrap() }
        });
        let watching = database.connect().await.unwrap();
        until("a wait for the lock", Duration::from_secs(10), async || {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            watching.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        match commits {
            true => rival.commit().await.unwrap(),
            false => rival.rollback().await.unwrap(),
        }
        match (commits, creating.await.unwrap()) {
            (true, CreateOutcome::KeyConflict { existing }) => assert_eq!(existing.as_str(), "rival"),
            (false, CreateOutcome::Created(promise)) => assert_eq!(promise.state, PromiseState::Pending),
            (_, other) => panic!("{commits}: {other:?}"),
        }
    }
}

/// Runs are deleted with their promises' keys during settlements by these keys: there is no
/// deadlock and no failure.
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_forgotten_while_their_promises_are_settled_by_key() {
    let database = database().await;
    let nodes = nodes(&database.url()).await;
    for round in 0..4 {
        let t = nodes[0].clone();
        let names: Vec<String> = (0..24).map(|n| format!("ch_{round}_{n}")).collect();
        for name in &names {
            let run = t.driven().await;
            let promise = Promise::pending(promise_of(&run, "paid"), run.id(), t.now(), None);
            let run = t.write(&run).await.waits_for("paid", keyed(promise, name)).done().await;
            t.write(&run).await.gives_up("paid").completes("1").done().await;
        }
        t.pass(SECOND);
        let settling: Vec<_> = names
            .iter()
            .rev()
            .map(|name| {
                let (t, request) = (nodes[1].clone(), settlement(PromiseRef::Key(key(name))));
                let request = SettlePromise { keep_for: None, ..request };
                tokio::spawn(async move { t.store.settle_promise(request).await.unwrap() })
            })
            .collect();
        // A locked run is left for another pass.
        let forgotten = async || {
            let request = Purge { runs_closed_before: Some(t.now()), after: None, limit: 1_000 };
            t.store.purge(request).await.unwrap().runs
        };
        forgotten().await;
        for settled in settling {
            must!(settled.await.unwrap(), SettleOutcome::Settled { .. } | SettleOutcome::NoSuchPromise);
        }
        forgotten().await;
        assert_eq!(t.store.list_keys(None).await.unwrap(), [], "keys go with their promises");
    }
}

/// Invariant 62: tables of the previous version keep their contents, and its writes continue beside
/// the new ones.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_second_version_are_brought_up_to_date() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let set_up = "SET search_path = hapax; SELECT set_config('hapax.schema', 'hapax', false)";
    let first = include_str!("../../migrations/0001_runs_steps_keys.sql");
    let second = include_str!("../../migrations/0002_requests_catalog.sql");
    for sql in [set_up, include_str!("../../sql/create_schema.sql"), first, second] {
        admin.batch_execute(sql).await.unwrap();
    }
    let old = "INSERT INTO schema_versions (version, oldest_program) VALUES (1, 1), (2, 1);
        INSERT INTO workspaces (name) VALUES ('default');
        INSERT INTO promises (workspace, run, id, deadline_at, settled_at, status, value)
        SELECT id, gen_random_uuid(), 'settled', NULL, 5, 1, '7' FROM workspaces";
    admin.batch_execute(old).await.unwrap();
    // A write of the previous version.
    let insert_key = "INSERT INTO keys (workspace, kind, key, run, fingerprint, first_seen_at)
        SELECT id, 0, $1, gen_random_uuid(), sha256(''), 1 FROM workspaces";
    let insert_promise = "INSERT INTO promises (workspace, run, id, deadline_at, status)
        SELECT id, gen_random_uuid(), $1, NULL, 0 FROM workspaces";
    for sql in [insert_key, insert_promise] {
        admin.execute(sql, &[&"before"]).await.unwrap();
    }
    let migrated = migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
    assert_eq!(migrated, Migrated { from: 2, to: 9 });
    for sql in [insert_key, insert_promise] {
        admin.execute(sql, &[&"beside"]).await.unwrap();
    }
    let t = stage(&database.url(), PostgresOptions::default()).await;
    let here = WorkspaceId::default();
    let settled = t.store.find_promise(&here, &PromiseId::from_stored("settled")).await.unwrap().unwrap();
    assert_eq!(settled.state.status(), PromiseStatus::Resolved);
    for id in ["before", "beside"] {
        let record = t.store.find_key(&here, KeyKind::Run, &key(id)).await.unwrap().unwrap();
        assert!(matches!(record.target, KeyTarget::Run { .. }));
        let outcome = t.store.settle_promise(settlement(PromiseRef::Id(PromiseId::from_stored(id)))).await;
        must!(outcome.unwrap(), SettleOutcome::Settled { .. });
    }
    must!(
        book(&t).create_promise(creation(keyed(standalone(&t, "prm_1"), "before"))).await.unwrap(),
        CreateOutcome::Created(_)
    );
    let run = t.driven().await;
    let run = t.write(&run).await.waits_for("paid", standalone(&t, "prm_1")).parks().done().await;
    assert_eq!(t.head(&run).await.status(), RunStatus::Waiting);
    for bad in [
        "INSERT INTO keys (workspace, kind, key, first_seen_at) VALUES (1, 1, 'x', 0)",
        "INSERT INTO keys (workspace, kind, key, first_seen_at, expires_at) VALUES (1, 0, 'x', 0, 1)",
        "INSERT INTO keys (workspace, kind, key, first_seen_at, run, fingerprint, promise)
            VALUES (1, 0, 'x', 0, gen_random_uuid(), sha256(''), 'p')",
        "INSERT INTO keys (workspace, kind, key, first_seen_at, run, fingerprint)
            VALUES (1, 1, 'x', 0, gen_random_uuid(), sha256(''))",
        "INSERT INTO promises (workspace, run, id, status) VALUES (1, gen_random_uuid(), 'x', 4)",
        "INSERT INTO promises (workspace, run, id, status, key) VALUES (1, gen_random_uuid(), 'x', 0, 'k')",
    ] {
        assert!(
            admin.execute(bad, &[]).await.is_err(),
            "the table lets in what the model does not know: {bad}"
        );
    }
}

/// However many promises have another status, a page reads a bounded number: it may be short, and
/// has a cursor.
#[tokio::test]
async fn one_open_promise_among_very_many_is_found_page_by_page() {
    let database = database().await;
    let t = stage(&database.url(), PostgresOptions::default()).await;
    must!(
        book(&t).create_promise(creation(standalone(&t, "z-open"))).await.unwrap(),
        CreateOutcome::Created(_)
    );
    let fill = "INSERT INTO hapax.promises (workspace, id, run, status, settled_at, value)
        SELECT w.id, 'done-' || lpad(n::text, 6, '0'), '00000000-0000-0000-0000-000000000000', 1, 0, '1'
        FROM hapax.workspaces AS w, generate_series(1, $1::int4) AS n";
    let many = 2 * MAX_PROMISES_SCANNED as i32 + 1;
    database.connect().await.unwrap().execute(fill, &[&many]).await.unwrap();
    for run in [None, Some(RunId::NONE)] {
        let (mut after, mut pages) = (None, Vec::new());
        loop {
            let (workspace, status) = (WorkspaceId::default(), Some(PromiseStatus::Pending));
            let request = ListPromises { workspace, run, status, after, limit: 10 };
            let page = book(&t).list_promises(request).await.unwrap();
            pages.push(page.promises.iter().map(|promise| promise.id.to_string()).collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, [vec![], vec![], vec!["z-open".to_owned()]], "{run:?}");
    }
    t.store.close().await.unwrap();
}

/// S4.8, S4.11, S4.15, S4.34: one table for keys of runs and promises; it rejects keys that name
/// two objects, or never name one.
#[tokio::test]
async fn the_table_of_keys_refuses_what_no_key_can_be() {
    let database = database().await;
    let admin = database.connect().await.unwrap();
    let insert = async |kind: i16, run: bool, promise: bool, print: bool, ends: bool| {
        let insert = "INSERT INTO hapax.keys (workspace, kind, key, run, promise, fingerprint, first_seen_at, expires_at)
            SELECT 1, $1, 'k', CASE WHEN $2 THEN gen_random_uuid() END, CASE WHEN $3 THEN 'p' END,
                CASE WHEN $4 THEN sha256('') END, 1, CASE WHEN $5 THEN 5 END";
        let done = admin.execute(insert, &[&kind, &run, &promise, &print, &ends]).await;
        admin.execute("DELETE FROM hapax.keys", &[]).await.unwrap();
        match done {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION), "{error}");
                false
            }
        }
    };
    let (run, print, promise, ends) = (true, true, true, true);
    assert!(insert(0, run, !promise, print, !ends).await);
    assert!(insert(1, !run, promise, !print, !ends).await);
    assert!(insert(1, !run, !promise, !print, ends).await, "a placeholder");
    assert!(!insert(1, !run, !promise, !print, !ends).await, "a placeholder for ever");
    assert!(!insert(0, !run, !promise, !print, ends).await, "a placeholder for a run");
    assert!(!insert(0, run, promise, print, !ends).await, "two targets");
    assert!(!insert(1, run, !promise, print, !ends).await, "the wrong kind");
    assert!(!insert(0, !run, promise, !print, !ends).await, "the wrong kind");
    assert!(!insert(0, run, !promise, !print, !ends).await, "the fingerprint");
    assert!(!insert(1, !run, promise, print, !ends).await, "the fingerprint");
}
