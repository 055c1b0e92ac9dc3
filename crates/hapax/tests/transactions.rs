//! Steps that write to the user's own tables in the store's file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hapax::model::{PromiseId, WorkspaceId};
use hapax::sqlite::TransactionStep;
use hapax::sqlite::rusqlite::Connection;
use hapax::{CrashPoint, CrashPointWatcher, Ctx, Engine, Failure, Hapax, Result};

fn booked(path: &std::path::Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0)).unwrap()
}

async fn pay(ctx: Ctx, cents: i64) -> Result<i64> {
    let rows = ctx
        .transaction("ledger", move |connection| {
            connection.execute("INSERT INTO ledger (cents) VALUES (?1)", [cents])?;
            Ok(connection.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0))?)
        })
        .await?;
    ctx.step("mail", |_| async { Ok::<_, Failure>(()) }).await?;
    Ok(rows)
}

async fn open(folder: &std::path::Path, watcher: Option<CrashPointWatcher>) -> Engine {
    let path = folder.join("pay.db");
    let options = hapax::EngineOptions { watcher, ..Default::default() };
    let hapax = Hapax::builder(&format!("sqlite:{}", path.display()))
        .options(options)
        .open()
        .await
        .unwrap()
        .into_engine()
        .unwrap();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS ledger (cents INTEGER NOT NULL CHECK (cents > 0))")
        .unwrap();
    hapax.register("pay", pay).unwrap();
    hapax
}

#[tokio::test]
async fn the_writes_of_a_step_and_its_record_are_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let hapax = open(folder.path(), None).await;
    let run = hapax.start("pay", &100i64).await.unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 1);
    assert_eq!(run.view().await.unwrap().head.version.get(), 1 + 2 * 2 + 1);
    hapax.shutdown(hapax::seconds(5)).await.unwrap();
    assert_eq!(booked(&folder.path().join("pay.db")), 1);
}

#[tokio::test]
async fn work_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let hapax = open(folder.path(), None).await;
    hapax
        .register("overdraw", |ctx: Ctx, (): ()| async move {
            ctx.transaction("ledger", |connection| {
                connection.execute("INSERT INTO ledger (cents) VALUES (5)", [])?;
                Err::<(), _>(Failure::permanent("not enough money"))
            })
            .await
        })
        .unwrap();
    let run = hapax.start("overdraw", &()).await.unwrap();
    assert!(run.result::<()>().await.unwrap_err().to_string().contains("not enough money"));
    assert_eq!(booked(&folder.path().join("pay.db")), 0);
    let run = hapax.start("pay", &100i64).await.unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 1, "the writer goes on");
}

/// Contract §6, `transactional`: a crash before or after the commit, but never in between.
#[tokio::test]
async fn a_crash_around_the_commit_books_once() {
    for point in ["before_record", "after_record"] {
        let folder = tempfile::tempdir().unwrap();
        let (crashed, at) = tokio::sync::watch::channel(false);
        let watcher = CrashPointWatcher::new(move |reached: &CrashPoint| {
            if reached.name() == point && !*crashed.borrow() {
                crashed.send_replace(true);
                // As good as dead: this thread of the engine never comes back.
                panic!("crash");
            }
        });
        let hapax = open(folder.path(), Some(watcher)).await;
        let run = hapax.start("pay", &100i64).await.unwrap().id();
        let mut at = at;
        at.wait_for(|crashed| *crashed).await.unwrap();
        hapax.kill();
        hapax.store().close().await.unwrap();
        drop(hapax);

        let hapax = open(folder.path(), None).await;
        assert_eq!(hapax.run(run).await.unwrap().result::<i64>().await.unwrap(), 1, "{point}");
        assert_eq!(booked(&folder.path().join("pay.db")), 1, "{point}");
        hapax.shutdown(hapax::seconds(5)).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_without_transactions_says_so() {
    let hapax = Hapax::open("memory:").await.unwrap().into_engine().unwrap();
    hapax
        .register("pay", |ctx: Ctx, (): ()| async move { ctx.transaction("ledger", |_| Ok(())).await })
        .unwrap();
    let run = hapax.start("pay", &()).await.unwrap();
    let error = run.result::<()>().await.unwrap_err().to_string();
    assert!(error.contains("no transactions"), "{error}");
}

/// Outcomes that arrive during a transaction reach the code after it, in the same order as in a
/// replay.
#[tokio::test]
async fn beside_a_transaction_outcomes_come_in_the_order_of_their_records() {
    let folder = tempfile::tempdir().unwrap();
    let (writing, in_flight) = tokio::sync::watch::channel(false);
    let called = Arc::new(AtomicBool::new(false));
    let workflow = move |ctx: Ctx, (): ()| {
        let (writing, in_flight, called) = (writing.clone(), in_flight.clone(), called.clone());
        async move {
            let booking = async {
                let (writing, called) = (writing.clone(), called.clone());
                ctx.transaction("ledger", move |connection| {
                    connection.execute("INSERT INTO ledger (cents) VALUES (5)", [])?;
                    writing.send_replace(true);
                    while !called.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    Ok(())
                })
                .await?;
                ctx.step("next", |_| async { Ok::<_, Failure>("booking".to_string()) }).await
            };
            let calling = async {
                ctx.step("call", |_| {
                    let (mut in_flight, called) = (in_flight.clone(), called.clone());
                    async move {
                        in_flight.wait_for(|now| *now).await.map_err(Failure::retryable)?;
                        called.store(true, Ordering::SeqCst);
                        Ok::<_, Failure>(())
                    }
                })
                .await?;
                ctx.step("next", |_| async { Ok::<_, Failure>("calling".to_string()) }).await
            };
            let (booking, calling) = tokio::join!(booking, calling);
            ctx.create_promise::<()>("hold").await?;
            Ok::<_, Failure>((booking?, calling?))
        }
    };
    let hapax = open(folder.path(), None).await;
    hapax.register("both", workflow.clone()).unwrap();
    let run = hapax.start("both", &()).await.unwrap();
    let hold = format!("{}:hold", run.id());
    let (workspace, id) = (WorkspaceId::default(), PromiseId::from_stored(&hold));
    while hapax.store().find_promise(&workspace, &id).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    hapax.kill();
    hapax.store().close().await.unwrap();
    drop(hapax);
    let hapax = open(folder.path(), None).await;
    hapax.register("both", workflow).unwrap();
    hapax.resolve_promise(&hold, &()).await.unwrap();
    let outcome = hapax.run(run.id()).await.unwrap().result::<(String, String)>().await.unwrap();
    assert_eq!(outcome, ("booking".to_string(), "calling".to_string()));
}
