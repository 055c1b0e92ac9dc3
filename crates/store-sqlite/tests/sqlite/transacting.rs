//! User work and its record in one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hapax_engine::clock::SystemClock;
use hapax_engine::model::{CommitBuilder, Failure, OutboxMessage, RunHead};
use hapax_engine::store::{ListOutbox, Store, StoreError, Transact, TransactOutcome};
use hapax_engine::{Ctx, Engine, EngineOptions};
use hapax_store_sqlite::rusqlite::Connection;
use hapax_store_sqlite::{SqliteOptions, SqliteStore, SqliteWork, TransactionStep};

use crate::fixture::*;

fn book(connection: &Connection, amount: i64) -> Result<i64, Failure> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS ledger (amount INTEGER NOT NULL UNIQUE)")?;
    connection.execute("INSERT INTO ledger VALUES (?1)", [amount])?;
    Ok(amount)
}

/// Work on a run, recorded as the step `ledger`.
fn transact(
    head: &RunHead,
    work: impl Fn(&Connection) -> Result<i64, Failure> + Send + Sync + 'static,
) -> Transact {
    let head = head.clone();
    let record = move |output| {
        let mut write = CommitBuilder::new(&head, head.changed_at);
        write.step(completed("ledger", head.changed_at, output))?;
        write.post(post(&head, "ledger"));
        Ok(write.finish())
    };
    Transact { work: Box::new(SqliteWork::new(work)), record: Box::new(record) }
}

fn ledger(place: &TestFolder) -> Vec<i64> {
    let reader = Connection::open(place.file()).unwrap();
    let Ok(mut list) = reader.prepare("SELECT amount FROM ledger ORDER BY amount") else { return Vec::new() };
    list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

async fn recorded(store: &SqliteStore, head: &RunHead) -> usize {
    store.find_log(&workspace(), head.id()).await.unwrap().unwrap().steps.len()
}

async fn posts(store: &SqliteStore) -> Vec<OutboxMessage> {
    let all = ListOutbox { workspace: None, status: None, target: None, after: None, limit: 10 };
    store.list_outbox(all).await.unwrap()
}

#[tokio::test]
async fn work_and_record_are_one_commit() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let done = store.transact(transact(&held, |connection| book(connection, 42))).await.unwrap();
    let TransactOutcome::Done { output, commit: advance, .. } = done else { panic!("{done:?}") };
    assert_eq!((output.as_str(), ledger(&place)), ("42", vec![42]));
    let view = store.find_run(&workspace(), held.id()).await.unwrap().unwrap();
    assert_eq!((view.head, recorded(&store, &held).await), (advance.head, 1));
    assert_eq!(posts(&store).await, [post(&held, "ledger")]);
}

#[tokio::test]
async fn work_that_fails_panics_or_comes_too_late_leaves_nothing() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let failed = transact(&held, |connection| {
        book(connection, 1)?;
        Err(Failure::permanent("no"))
    });
    let failed = store.transact(failed).await.unwrap();
    assert!(matches!(&failed, TransactOutcome::WorkFailed(why) if why.message() == "no"), "{failed:?}");
    let panicked = transact(&held, |connection| {
        book(connection, 2)?;
        panic!("no")
    });
    let panicked = store.transact(panicked).await.unwrap();
    assert!(matches!(panicked, TransactOutcome::WorkFailed(_)), "{panicked:?}");
    let moved_on = advance(&store, one_step(&store, &held, "a")).await;
    let stale = store.transact(transact(&held, |connection| book(connection, 3))).await.unwrap();
    assert!(matches!(&stale, TransactOutcome::Stale(head) if **head == moved_on), "{stale:?}");
    place.clock.advance(LEASE);
    store.claim_runs(claim(2)).await.unwrap();
    let lost = store.transact(transact(&moved_on, |connection| book(connection, 4))).await.unwrap();
    assert!(matches!(lost, TransactOutcome::LeaseLost), "{lost:?}");
    assert_eq!((ledger(&place), recorded(&store, &held).await), (vec![], 1));
    assert_eq!(posts(&store).await, [], "what the record would have left went with it");
}

#[tokio::test]
async fn work_can_neither_end_the_transaction_nor_write_what_is_ours() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    for sql in [
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK TO hapax_work",
        "PRAGMA synchronous = OFF",
        "ATTACH ':memory:' AS other",
        "UPDATE hapax_runs SET version = 99",
        "DELETE FROM Hapax_Steps",
        "DROP TABLE hapax_keys",
        "CREATE TRIGGER t AFTER UPDATE ON hapax_runs BEGIN SELECT 1; END",
    ] {
        let work = transact(&held, move |connection| {
            book(connection, 1)?;
            connection.execute_batch(sql)?;
            Ok(1)
        });
        let outcome = store.transact(work).await.unwrap();
        assert!(matches!(outcome, TransactOutcome::WorkFailed(_)), "{sql}: {outcome:?}");
    }
    assert!(ledger(&place).is_empty());
    let reads = transact(&held, |connection| {
        let version = connection.query_row("SELECT version FROM hapax_runs", [], |row| row.get(0))?;
        connection.execute_batch("SAVEPOINT mine; ROLLBACK TO mine; RELEASE mine")?;
        Ok(version)
    });
    assert!(matches!(store.transact(reads).await.unwrap(), TransactOutcome::Done { .. }));
}

/// A conflict clause can end the transaction without the work saying so; the others in the batch must not notice.
#[tokio::test]
async fn work_that_takes_the_transaction_down_with_it_fails_alone() {
    let place = TestFolder::new();
    let store = Arc::new(place.open().await);
    let mut runs = Vec::new();
    for id in 1..=20 {
        runs.push(start(&store, granted(facts(id))).await);
    }
    let first = store.transact(transact(&runs[0], |connection| book(connection, 1))).await.unwrap();
    assert!(matches!(first, TransactOutcome::Done { .. }));
    let writes: Vec<_> = runs[1..]
        .iter()
        .map(|run| {
            let (store, run) = (store.clone(), run.clone());
            tokio::spawn(async move {
                if run.id().as_u128() != 10 {
                    advance(&store, one_step(&store, &run, "a")).await;
                    return;
                }
                let rude = transact(&run, |connection| {
                    connection.execute("INSERT OR ROLLBACK INTO ledger VALUES (1)", [])?;
                    Ok(1)
                });
                let error = store.transact(rude).await.unwrap_err();
                assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
            })
        })
        .collect();
    for write in writes {
        write.await.unwrap();
    }
    for run in &runs[1..] {
        assert_eq!(recorded(&store, run).await, usize::from(run.id().as_u128() != 10));
    }
    assert_eq!(ledger(&place), [1]);
}

#[tokio::test]
async fn work_in_another_form_is_refused() {
    let place = TestFolder::new();
    let store = place.open().await;
    let held = start(&store, granted(facts(1))).await;
    let odd = Transact { work: Box::new("a string"), ..transact(&held, |_| Ok(1)) };
    assert!(matches!(store.transact(odd).await, Err(StoreError::Refused(_))));
}

static TRIES: AtomicU32 = AtomicU32::new(0);

async fn process_order(ctx: Ctx, amount: i64) -> Result<i64, Failure> {
    let booked: i64 = ctx
        .transaction("ledger", move |connection| {
            book(connection, amount)?;
            match TRIES.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Failure::retryable("the first try fails after its write")),
                _ => Ok(amount),
            }
        })
        .await?;
    let retry = hapax_engine::model::RetryPolicy::never();
    let total = |connection: &Connection| {
        Ok(connection.query_row("SELECT sum(amount) FROM ledger", [], |row| row.get(0))?)
    };
    Ok(booked + ctx.transaction_with::<i64>("total", retry, total).await?)
}

#[tokio::test]
async fn a_workflow_books_once_however_often_it_tries() {
    let place = TestFolder::new();
    let store = SqliteStore::open(place.file(), SqliteOptions::default()).await.unwrap();
    let engine =
        Engine::launch(Arc::new(store), Arc::new(SystemClock::new()), EngineOptions::default()).unwrap();
    engine.register("process-order", process_order).unwrap();
    let run = engine.start("process-order", &42i64).await.unwrap();
    let sum: i64 = run.result().await.unwrap();
    assert_eq!((sum, ledger(&place)), (84, vec![42]));
    assert_eq!(TRIES.load(Ordering::SeqCst), 2);
    engine.shutdown(LEASE).await.unwrap();
}
