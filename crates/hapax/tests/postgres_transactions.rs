//! Steps that write to the user's own tables in the store's PostgreSQL database.
#![cfg(feature = "postgres")]

use hapax::postgres::TransactionStep;
use hapax::postgres::tokio_postgres::Client;
use hapax::{CrashPoint, CrashPointWatcher, Ctx, Engine, EngineOptions, Failure, Hapax, Result};
use hapax_postgres_fixture::Database;

struct Bank {
    database: Database,
    admin: Client,
}

impl Bank {
    async fn new() -> Bank {
        let database = Database::empty().await.unwrap();
        let admin = database.connect().await.unwrap();
        let table = "CREATE TABLE ledger (cents int8 NOT NULL CHECK (cents > 0))";
        admin.batch_execute(table).await.unwrap();
        Bank { database, admin }
    }

    async fn open(&self, watcher: Option<CrashPointWatcher>) -> Engine {
        let options = EngineOptions { watcher, lease_for: hapax::seconds(1), ..Default::default() };
        let hapax = Hapax::builder(&self.database.url())
            .options(options)
            .open()
            .await
            .unwrap()
            .into_engine()
            .unwrap();
        hapax.register("pay", pay).unwrap();
        hapax
    }

    async fn booked(&self) -> i64 {
        self.admin.query_one("SELECT count(*) FROM ledger", &[]).await.unwrap().get(0)
    }
}

async fn pay(ctx: Ctx, cents: i64) -> Result<i64> {
    let rows = ctx
        .transaction("ledger", move |tx| {
            Box::pin(async move {
                tx.execute("INSERT INTO ledger (cents) VALUES ($1)", &[&cents]).await?;
                Ok(tx.query_one("SELECT count(*) FROM ledger", &[]).await?.get(0))
            })
        })
        .await?;
    ctx.step("mail", |_| async { Ok::<_, Failure>(()) }).await?;
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writes_of_a_step_and_its_record_are_one_commit() {
    let bank = Bank::new().await;
    let hapax = bank.open(None).await;
    let run = hapax.start("pay", &100i64).await.unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 1);
    assert_eq!(run.view().await.unwrap().head.version.get(), 1 + 2 * 2 + 1);
    hapax.shutdown(hapax::seconds(5)).await.unwrap();
    assert_eq!(bank.booked().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_fails_leaves_nothing_behind() {
    let bank = Bank::new().await;
    let hapax = bank.open(None).await;
    hapax
        .register("overdraw", |ctx: Ctx, (): ()| async move {
            ctx.transaction("ledger", |tx| {
                Box::pin(async move {
                    tx.execute("INSERT INTO ledger (cents) VALUES (5)", &[]).await?;
                    Err::<(), _>(Failure::permanent("not enough money"))
                })
            })
            .await
        })
        .unwrap();
    let run = hapax.start("overdraw", &()).await.unwrap();
    assert!(run.result::<()>().await.unwrap_err().to_string().contains("not enough money"));
    assert_eq!(bank.booked().await, 0);
    let run = hapax.start("pay", &100i64).await.unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 1);
}

/// Contract §6, `transactional`: a crash before or after the commit, but never in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_around_the_commit_books_once() {
    for point in ["before_record", "after_record"] {
        let bank = Bank::new().await;
        let (crashed, mut at) = tokio::sync::watch::channel(false);
        let watcher = CrashPointWatcher::new(move |reached: &CrashPoint| {
            if reached.name() == point && !*crashed.borrow() {
                crashed.send_replace(true);
                // As good as dead: this task of the engine never comes back.
                panic!("crash");
            }
        });
        let hapax = bank.open(Some(watcher)).await;
        let run = hapax.start("pay", &100i64).await.unwrap().id();
        at.wait_for(|crashed| *crashed).await.unwrap();
        hapax.kill();
        hapax.store().close().await.unwrap();
        drop(hapax);

        let hapax = bank.open(None).await;
        assert_eq!(hapax.run(run).await.unwrap().result::<i64>().await.unwrap(), 1, "{point}");
        assert_eq!(bank.booked().await, 1, "{point}");
        hapax.shutdown(hapax::seconds(5)).await.unwrap();
    }
}

/// The work of one store is no use to another.
#[tokio::test]
async fn a_store_of_another_kind_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let hapax = Hapax::open(&format!("sqlite:{}", folder.path().join("pay.db").display()))
        .await
        .unwrap()
        .into_engine()
        .unwrap();
    hapax.register("pay", pay).unwrap();
    let run = hapax.start("pay", &1i64).await.unwrap();
    let error = run.result::<i64>().await.unwrap_err().to_string();
    assert!(error.contains("SqliteWork"), "{error}");
}
