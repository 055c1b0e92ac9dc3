//! Starts in the user's transaction: the run exists if and only if it commits.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{Failure, IdempotencyKey, KeyKind, RunId, WorkspaceId};
use hapax_engine::store::{Store, StoreError};
use hapax_engine::{Ctx, Engine, EngineOptions, Error, RunHandle};
use hapax_postgres_fixture::Database;
use hapax_store_postgres::tokio_postgres::{Client, Transaction};
use hapax_store_postgres::{PostgresOptions, PostgresStore, StartWithin};

use crate::dropped_futures::drop_after;
use crate::fixture::{database, open, until};

const PATIENCE: Duration = Duration::from_secs(10);

/// An engine that hardly ever polls, and the user's shop beside it.
struct Shop {
    engine: Engine,
    store: Arc<PostgresStore>,
    database: Database,
}

async fn process_order(_: Ctx, order: i64) -> Result<i64, Failure> {
    Ok(order)
}

impl Shop {
    async fn open(options: PostgresOptions) -> Shop {
        let database = database().await;
        let admin = database.connect().await.unwrap();
        admin.batch_execute("CREATE TABLE orders (id int8 NOT NULL)").await.unwrap();
        let store = open(&database.url(), options).await;
        let rarely = EngineOptions { poll_every: Duration::from_secs(300), ..EngineOptions::default() };
        let engine = Engine::launch(store.clone(), store.clock(), rarely).unwrap();
        engine.register("process-order", process_order).unwrap();
        Shop { engine, store, database }
    }

    async fn client(&self) -> Client {
        self.database.connect().await.unwrap()
    }

    async fn orders(&self) -> i64 {
        self.client().await.query_one("SELECT count(*) FROM orders", &[]).await.unwrap().get(0)
    }

    async fn runs(&self) -> i64 {
        self.client().await.query_one("SELECT count(*) FROM hapax.runs", &[]).await.unwrap().get(0)
    }

    /// Places an order and starts its run, in one transaction.
    async fn place(&self, transaction: &mut Transaction<'_>, order: i64) -> Result<RunHandle, Error> {
        transaction.execute("INSERT INTO orders (id) VALUES ($1)", &[&order]).await.unwrap();
        let start = self.engine.start("process-order", &order).idempotency_key(format!("order-{order}"));
        start.within(transaction).await
    }

    async fn run_of_key(&self, key: &str) -> Option<RunId> {
        let key = IdempotencyKey::new(key).unwrap();
        let found = self.store.find_key(&WorkspaceId::default(), KeyKind::Run, &key).await.unwrap();
        found.and_then(|record| record.run())
    }

    /// Waits until a statement waits for a lock.
    async fn until_somebody_waits(&self) {
        let admin = self.client().await;
        let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock')";
        until("waiting for a lock", PATIENCE, async || admin.query_one(waiting, &[]).await.unwrap().get(0))
            .await;
    }
}

/// Driven at once without polling: the commit itself notifies the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_started_in_a_transaction_that_commits_is_driven() {
    let shop = Shop::open(PostgresOptions::default()).await;
    let mut client = shop.client().await;
    let mut transaction = client.transaction().await.unwrap();
    let run = shop.place(&mut transaction, 7).await.unwrap();
    assert!(run.created);
    assert!(matches!(run.view().await, Err(Error::NoSuchRun(_))), "nobody sees it yet");
    transaction.commit().await.unwrap();
    until("the end of the run", PATIENCE, async || run.view().await.unwrap().result.is_some()).await;
    assert_eq!(run.result::<i64>().await.unwrap(), 7);
    assert_eq!((shop.orders().await, shop.runs().await), (1, 1));
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_started_in_a_transaction_that_is_rolled_back_never_was() {
    let shop = Shop::open(PostgresOptions::default()).await;
    let mut client = shop.client().await;
    let mut transaction = client.transaction().await.unwrap();
    let run = shop.place(&mut transaction, 7).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(matches!(run.view().await, Err(Error::NoSuchRun(_))));
    assert_eq!((shop.orders().await, shop.runs().await, shop.run_of_key("order-7").await), (0, 0, None));
    let again = shop.engine.start("process-order", &7i64).idempotency_key("order-7").await.unwrap();
    assert!(again.created && again.id() != run.id(), "the key is free");
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_names_one_run_inside_and_outside_of_transactions() {
    let shop = Shop::open(PostgresOptions::default()).await;
    let mut client = shop.client().await;
    let outside = shop.engine.start("process-order", &1i64).idempotency_key("order-1").await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let inside = shop.place(&mut transaction, 1).await.unwrap();
    assert!(!inside.created && inside.id() == outside.id());
    let first = shop.place(&mut transaction, 2).await.unwrap();
    let second = shop.place(&mut transaction, 2).await.unwrap();
    assert!(first.created && !second.created && first.id() == second.id(), "its own, not committed yet");
    let conflict = shop.engine.start("process-order", &9i64).idempotency_key("order-1");
    let conflict = conflict.within(&mut transaction).await;
    assert!(matches!(&conflict, Err(Error::KeyConflict { run, .. }) if *run == outside.id()), "{conflict:?}");
    let subject = |order: i64| shop.engine.start("process-order", &order).subject("customer");
    let busy = subject(3).delay(PATIENCE).within(&mut transaction).await.unwrap();
    let refused = subject(4).within(&mut transaction).await;
    assert!(matches!(&refused, Err(Error::SubjectBusy { run }) if *run == busy.id()), "{refused:?}");
    transaction.commit().await.unwrap();
    assert_eq!(shop.orders().await, 3, "whatever was answered, the transaction went on");
    let outside = shop.engine.start("process-order", &2i64).idempotency_key("order-2").await.unwrap();
    assert!(!outside.created && outside.id() == first.id());
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_transactions_with_one_key_make_one_run() {
    for first_commits in [true, false] {
        let shop = Arc::new(Shop::open(PostgresOptions::default()).await);
        let mut client = shop.client().await;
        let mut transaction = client.transaction().await.unwrap();
        let first = shop.place(&mut transaction, 7).await.unwrap();
        let second = tokio::spawn({
            let shop = shop.clone();
            async move {
                let mut client = shop.client().await;
                let mut transaction = client.transaction().await.unwrap();
                let run = shop.place(&mut transaction, 7).await.unwrap();
                transaction.commit().await.unwrap();
                run
            }
        });
        shop.until_somebody_waits().await;
        match first_commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        let second = second.await.unwrap();
        assert_eq!(second.created, !first_commits);
        assert_eq!(second.id() == first.id(), first_commits);
        assert_eq!(second.result::<i64>().await.unwrap(), 7);
        assert_eq!((shop.runs().await, shop.orders().await), (1, 1 + i64::from(first_commits)));
        shop.engine.shutdown(PATIENCE).await.unwrap();
    }
}

/// Also outside, and in a batch with others, which do not wait with it for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_committed_is_not_waited_for_for_ever() {
    let shop = Shop::open(PostgresOptions::default().deadline(Duration::from_millis(1_000))).await;
    let (mut client, mut other) = (shop.client().await, shop.client().await);
    let mut transaction = client.transaction().await.unwrap();
    shop.place(&mut transaction, 7).await.unwrap();
    let mut waiting = other.transaction().await.unwrap();
    let refused = shop.place(&mut waiting, 7).await;
    let Err(Error::Store(StoreError::Unavailable(why))) = refused else { panic!("{refused:?}") };
    assert!(why.contains("another transaction that has not ended"), "{why}");
    waiting.commit().await.unwrap();
    assert_eq!(shop.orders().await, 1, "the transaction that waited went on");
    let same = shop.engine.start("process-order", &7i64).idempotency_key("order-7");
    let another = shop.engine.start("process-order", &8i64).idempotency_key("order-8");
    let (same, another) = tokio::join!(same, another);
    assert!(matches!(&same, Err(Error::Store(StoreError::Unavailable(_)))), "{same:?}");
    assert!(another.unwrap().created);
    transaction.commit().await.unwrap();
    assert!(!shop.engine.start("process-order", &7i64).idempotency_key("order-7").await.unwrap().created);
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

/// Finding an existing run must not block it.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_in_an_open_transaction_locks_nothing() {
    let shop = Shop::open(PostgresOptions::default().deadline(Duration::from_millis(1_000))).await;
    let start = || shop.engine.start("process-order", &7i64).idempotency_key("order-7").delay(PATIENCE * 100);
    let run = start().await.unwrap();
    let mut client = shop.client().await;
    let mut transaction = client.transaction().await.unwrap();
    assert!(!start().within(&mut transaction).await.unwrap().created);
    assert!(!start().await.unwrap().created);
    run.cancel("no longer wanted").await.unwrap();
    transaction.commit().await.unwrap();
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_and_tables_of_the_transaction_do_not_matter() {
    let options = PostgresOptions::default().schema("tenant_7");
    let shop = Shop::open(options).await;
    let mut client = shop.client().await;
    let odd = "CREATE SCHEMA odd; CREATE TABLE odd.keys (x int); SET search_path = odd, public; SET lock_timeout = '77s';
        CREATE TEMP TABLE runs (x int); CREATE TEMP TABLE workflows (x int)";
    client.batch_execute(odd).await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let run = shop.place(&mut transaction, 7).await.unwrap();
    let settings = "SELECT current_setting('search_path') || '; ' || current_setting('lock_timeout')";
    let inside: String = transaction.query_one(settings, &[]).await.unwrap().get(0);
    let refused = shop.engine.start("process-order", &8i64).idempotency_key("order-7");
    assert!(refused.within(&mut transaction).await.is_err());
    let after: String = transaction.query_one(settings, &[]).await.unwrap().get(0);
    assert_eq!((inside.as_str(), after.as_str()), ("odd, public; 77s", "odd, public; 77s"));
    transaction.commit().await.unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 7);
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_on_another_database_is_refused() {
    let shop = Shop::open(PostgresOptions::default()).await;
    // A copy with the same tables, and an empty database.
    for elsewhere in [database().await, Database::empty().await.unwrap()] {
        let mut client = elsewhere.connect().await.unwrap();
        let mut transaction = client.transaction().await.unwrap();
        let refused = shop.engine.start("process-order", &7i64).within(&mut transaction).await;
        let Err(Error::Store(StoreError::Refused(why))) = refused else { panic!("{refused:?}") };
        assert!(why.contains("not on the database of this store"), "{why}");
        transaction.batch_execute("SELECT 1").await.unwrap();
    }
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let engine = Engine::launch(store, Arc::new(SystemClock::new()), EngineOptions::default()).unwrap();
    engine.register("process-order", process_order).unwrap();
    let mut client = shop.client().await;
    let mut transaction = client.transaction().await.unwrap();
    let refused = engine.start("process-order", &7i64).within(&mut transaction).await;
    assert!(matches!(refused, Err(Error::Store(StoreError::Refused(_)))), "{refused:?}");
    shop.engine.shutdown(PATIENCE).await.unwrap();
}

/// Fault 14: dropping the call leaves the transaction usable.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_dropped_at_any_await_leaves_the_transaction_usable() {
    let shop = Shop::open(PostgresOptions::default()).await;
    let mut client = shop.client().await;
    let settings = "SELECT current_setting('search_path') || '; ' || current_setting('lock_timeout')";
    let usual: String = client.query_one(settings, &[]).await.unwrap().get(0);
    let mut given_up = 0;
    for polls in 1.. {
        let mut transaction = client.transaction().await.unwrap();
        let key = format!("order-{polls}");
        let start = shop.engine.start("process-order", &7i64).idempotency_key(&key);
        let was_pending = drop_after(polls, start.within(&mut transaction)).await;
        let found: String = transaction.query_one(settings, &[]).await.unwrap().get(0);
        assert_eq!(found, usual, "{polls} polls");
        let again = shop.engine.start("process-order", &7i64).idempotency_key(&key);
        let again = again.within(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(shop.run_of_key(&key).await, Some(again.id()), "{polls} polls");
        if !was_pending {
            break;
        }
        given_up += 1;
    }
    assert!(given_up > 5, "{given_up} starts were dropped before their end");
    assert_eq!(shop.runs().await, given_up + 1, "one for each key");
    shop.engine.shutdown(PATIENCE).await.unwrap();
}
