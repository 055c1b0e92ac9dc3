//! User work and its record in one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hapax_engine::model::{
    CommitBuilder, Failure, FailureClass, RetryPolicy, RunHead, StepChange, StepId, StepKind, StepState,
    StepTransition,
};
use hapax_engine::store::{StoreError, Transact, TransactOutcome};
use hapax_engine::{Ctx, Engine, EngineOptions};
use hapax_postgres_fixture::{Database, Server, Shutdown};
use hapax_store_conformance::fixture::{ANN, BOB, LEASE, SECOND, TestStore};
use hapax_store_conformance::must;
use hapax_store_postgres::tokio_postgres::{Client, Transaction};
use hapax_store_postgres::{PostgresOptions, PostgresWork, TransactionStep};
use tokio::sync::watch;

use crate::dropped_futures::drop_after;
use crate::fixture::{database, open, stage, until};
use crate::proxy::{Proxy, ProxyMode};

/// A store, and the user's table beside it, read from outside.
struct Bank {
    t: TestStore,
    admin: Client,
    _database: Database,
}

impl Bank {
    async fn open(options: PostgresOptions) -> Bank {
        let database = database().await;
        let url = database.url();
        Bank::at(&url, database, options).await
    }

    /// With a read-only store.
    async fn open_beside(database: Database) -> Bank {
        let url = database.url();
        Bank::at(&url, database, PostgresOptions::default()).await
    }

    async fn at(url: &str, database: Database, options: PostgresOptions) -> Bank {
        let admin = database.connect().await.unwrap();
        admin.batch_execute("CREATE TABLE ledger (amount int8 NOT NULL)").await.unwrap();
        Bank { t: stage(url, options).await, admin, _database: database }
    }

    async fn ledger(&self) -> Vec<i64> {
        let rows = self.admin.query("SELECT amount FROM ledger ORDER BY amount", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn recorded(&self, run: &RunHead) -> usize {
        self.t.log(run).await.steps.len()
    }

    async fn transactions_left(&self) -> i64 {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND (state LIKE 'idle in transaction%' OR xact_start IS NOT NULL)";
        self.admin.query_one(count, &[]).await.unwrap().get(0)
    }
}

async fn book(transaction: &Transaction<'_>, amount: i64) -> Result<i64, Failure> {
    transaction.execute("INSERT INTO ledger (amount) VALUES ($1)", &[&amount]).await?;
    Ok(amount)
}

/// Work on a run, recorded as the step `ledger`.
fn transact(
    head: &RunHead,
    work: impl for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<i64, Failure>> + Send + Sync + 'static,
) -> Transact {
    let head = head.clone();
    let record = move |output| {
        let mut write = CommitBuilder::new(&head, head.changed_at);
        write.step(StepChange {
            id: StepId::from_stored("ledger"),
            kind: StepKind::Effect,
            previous: None,
            transition: StepTransition::Complete,
            state: StepState::Completed { at: head.changed_at, output },
            attempts: 1,
            started_at: head.changed_at,
            child: None,
        })?;
        Ok(write.finish())
    };
    Transact { work: Box::new(PostgresWork::new(work)), record: Box::new(record) }
}

fn booking(head: &RunHead, amount: i64) -> Transact {
    transact(head, move |transaction| Box::pin(async move { book(transaction, amount).await }))
}

fn failure(outcome: TransactOutcome) -> Failure {
    must!(outcome, TransactOutcome::WorkFailed(failure) => failure)
}

#[tokio::test]
async fn work_and_record_are_one_commit() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let run = bank.t.driven().await;
    let done = bank.t.store.transact(booking(&run, 42)).await.unwrap();
    let (output, advance) =
        must!(done, TransactOutcome::Done { output, commit: advance, .. } => (output, advance));
    assert_eq!((output.as_str(), bank.ledger().await), ("42", vec![42]));
    assert_eq!((bank.t.head(&run).await, bank.recorded(&run).await), (advance.head, 1));
}

#[tokio::test]
async fn work_that_fails_panics_or_comes_too_late_leaves_nothing() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let (t, run) = (&bank.t, bank.t.driven().await);
    let failed = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 1).await?;
            Err(Failure::permanent("no"))
        })
    });
    assert_eq!(failure(t.store.transact(failed).await.unwrap()).message(), "no");
    let panicked = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 2).await?;
            panic!("no")
        })
    });
    assert_eq!(failure(t.store.transact(panicked).await.unwrap()).class(), FailureClass::Retryable);
    let refused = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 3).await?;
            Ok(transaction.execute("INSERT INTO ledger (amount) VALUES (NULL)", &[]).await? as i64)
        })
    });
    assert!(failure(t.store.transact(refused).await.unwrap()).message().contains("null value"));
    let moved_on = t.write(&run).await.does("a").done().await;
    let stale = t.store.transact(booking(&run, 4)).await.unwrap();
    assert!(matches!(&stale, TransactOutcome::Stale(head) if **head == moved_on), "{stale:?}");
    t.pass(LEASE + SECOND);
    t.claim_one(BOB).await;
    let lost = t.store.transact(booking(&moved_on, 5)).await.unwrap();
    assert!(matches!(lost, TransactOutcome::LeaseLost), "{lost:?}");
    assert_eq!((bank.ledger().await, bank.recorded(&run).await), (vec![], 1));
}

/// PostgreSQL cannot prevent it, but it is detected, and the work is not repeated.
#[tokio::test]
async fn work_that_ends_its_own_transaction_fails_for_good() {
    let bank = Bank::open(PostgresOptions::default().transactions(1)).await;
    for sql in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"] {
        for succeeds in [true, false] {
            let run = bank.t.driven().await;
            let work = transact(&run, move |transaction| {
                Box::pin(async move {
                    transaction.batch_execute(sql).await?;
                    if succeeds { Ok(1) } else { Err(Failure::retryable("later")) }
                })
            });
            let failure = failure(bank.t.store.transact(work).await.unwrap());
            assert_eq!(failure.code(), Some("transaction_ended"), "{sql}, {succeeds}: {failure}");
            assert_eq!(failure.class(), FailureClass::Permanent);
            assert_eq!(bank.recorded(&run).await, 0);
        }
    }
    let run = bank.t.driven().await;
    must!(bank.t.store.transact(booking(&run, 1)).await.unwrap(), TransactOutcome::Done { .. });
}

#[tokio::test]
async fn work_may_use_savepoints() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let run = bank.t.driven().await;
    let work = transact(&run, |transaction| {
        Box::pin(async move {
            let savepoint = transaction.transaction().await?;
            book(&savepoint, 1).await?;
            savepoint.rollback().await?;
            book(transaction, 2).await
        })
    });
    must!(bank.t.store.transact(work).await.unwrap(), TransactOutcome::Done { .. });
    assert_eq!(bank.ledger().await, [2]);
}

#[tokio::test]
async fn work_that_passes_over_an_error_is_not_recorded() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let run = bank.t.driven().await;
    let work = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 1).await?;
            let _ = transaction.batch_execute("SELECT 1 / 0").await;
            Ok(1)
        })
    });
    let failure = failure(bank.t.store.transact(work).await.unwrap());
    assert!(failure.message().contains("a statement of its own had failed"), "{failure}");
    assert_eq!((bank.ledger().await, bank.recorded(&run).await), (vec![], 0));
    must!(bank.t.store.transact(booking(&run, 2)).await.unwrap(), TransactOutcome::Done { .. });
}

/// The deadline costs the connection; nothing is left behind on the server.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_takes_too_long_is_cut_off() {
    let deadline = Duration::from_secs(1);
    let bank = Bank::open(PostgresOptions::default().deadline(deadline).transactions(1)).await;
    let run = bank.t.driven().await;
    let work = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 1).await?;
            std::future::pending().await
        })
    });
    let failure = failure(bank.t.store.transact(work).await.unwrap());
    // Its own deadline, not the default one.
    assert!(failure.message().contains("did not end within 1s;"), "{failure}");
    until("the end of the transaction", 30 * deadline, async || bank.transactions_left().await == 0).await;
    assert_eq!((bank.ledger().await, bank.recorded(&run).await), (vec![], 0));
    must!(bank.t.store.transact(booking(&run, 2)).await.unwrap(), TransactOutcome::Done { .. });
}

/// Neither for the record in the same transaction, nor for the next user of the connection.
#[tokio::test]
async fn state_that_work_leaves_on_its_connection_is_cleared() {
    let bank = Bank::open(PostgresOptions::default().transactions(1)).await;
    let run = bank.t.driven().await;
    let rude = transact(&run, |transaction| {
        Box::pin(async move {
            let leavings = "SET search_path = nowhere; CREATE TEMP TABLE runs (x int);
                CREATE TEMP TABLE steps (x int); SET statement_timeout = 1234; SELECT pg_advisory_lock(7)";
            transaction.batch_execute(leavings).await?;
            Ok(1)
        })
    });
    must!(bank.t.store.transact(rude).await.unwrap(), TransactOutcome::Done { .. });
    assert_eq!(bank.recorded(&run).await, 1);
    let run = bank.t.driven().await;
    let polite = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 2).await?;
            let look = "SELECT to_regclass('pg_temp.runs') IS NULL AND current_setting('statement_timeout') <> '1234ms'
                AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())";
            let is_clean: bool = transaction.query_one(look, &[]).await?.get(0);
            Ok(i64::from(is_clean))
        })
    });
    let output =
        must!(bank.t.store.transact(polite).await.unwrap(), TransactOutcome::Done { output, .. } => output);
    assert_eq!((output.as_str(), bank.ledger().await), ("1", vec![2]));
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_takes_both_back() {
    let bank = Bank::open(PostgresOptions::default()).await;
    bank.admin
        .batch_execute("ALTER TABLE ledger ADD UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED")
        .await
        .unwrap();
    let run = bank.t.driven().await;
    let work = transact(&run, |transaction| {
        Box::pin(async move {
            book(transaction, 1).await?;
            book(transaction, 1).await
        })
    });
    let failure = failure(bank.t.store.transact(work).await.unwrap());
    assert!(failure.message().contains("duplicate key"), "{failure}");
    assert_eq!((bank.ledger().await, bank.recorded(&run).await), (vec![], 0));
    must!(bank.t.store.transact(booking(&run, 1)).await.unwrap(), TransactOutcome::Done { .. });
}

#[tokio::test]
async fn work_in_another_form_is_refused() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let run = bank.t.driven().await;
    let odd = Transact { work: Box::new("a string"), ..booking(&run, 1) };
    assert!(matches!(bank.t.store.transact(odd).await, Err(StoreError::Refused(_))));
}

/// Fault 13, for user work: whether the COMMIT or its response is lost, it is booked once in the
/// end.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_books_once() {
    for (way, was_written) in [(ProxyMode::LoseAnswerToCommit, true), (ProxyMode::LoseCommit, false)] {
        let database = database().await;
        let proxy = Proxy::start(&database.tcp_url()).await;
        let bank = Bank::at(proxy.url(), database, PostgresOptions::default()).await;
        let run = bank.t.driven().await;
        proxy.set(way);
        let lost = bank.t.store.transact(booking(&run, 1)).await;
        proxy.set(ProxyMode::Pass);
        assert!(matches!(lost, Err(StoreError::Unknown(_))), "{way:?}: {lost:?}");
        until("the end of the transaction", Duration::from_secs(30), async || {
            bank.transactions_left().await == 0
        })
        .await;
        let there = usize::from(was_written);
        assert_eq!((bank.ledger().await.len(), bank.recorded(&run).await), (there, there), "{way:?}");
        // The engine reads the log instead; a caller that does not is stopped by the version.
        let again = bank.t.store.transact(booking(&run, 1)).await.unwrap();
        match was_written {
            true => drop(must!(again, TransactOutcome::Stale(head) => head)),
            false => drop(must!(again, TransactOutcome::Done { output, .. } => output)),
        }
        assert_eq!((bank.ledger().await, bank.recorded(&run).await), (vec![1], 1), "{way:?}");
    }
}

/// Fault 14.
#[tokio::test(flavor = "multi_thread")]
async fn a_future_dropped_at_any_await_leaves_work_and_record_or_neither() {
    let bank = Bank::open(PostgresOptions::default().transactions(1)).await;
    let mut given_up = 0;
    for polls in 1.. {
        let (run, other) = (bank.t.driven().await, bank.t.driven().await);
        let booked_before = bank.ledger().await.len();
        let was_pending = drop_after(polls, bank.t.store.transact(booking(&run, polls as i64))).await;
        // There is one connection: once this call has had its turn, the dropped one is over.
        let next = transact(&other, |_| Box::pin(async { Ok(0) }));
        must!(bank.t.store.transact(next).await.unwrap(), TransactOutcome::Done { .. });
        assert_eq!(bank.ledger().await.len() - booked_before, bank.recorded(&run).await, "{polls} polls");
        until("the end of all transactions", Duration::from_secs(5), async || {
            bank.transactions_left().await == 0
        })
        .await;
        if !was_pending {
            break;
        }
        given_up += 1;
    }
    assert!(given_up > 0, "some future was dropped before its end");
    let report = bank.t.fsck().await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_transactions_share_a_few_connections() {
    let bank = Arc::new(Bank::open(PostgresOptions::default().transactions(2)).await);
    let mut working = Vec::new();
    for amount in 0..40 {
        let (bank, run) = (bank.clone(), bank.t.driven().await);
        working.push(tokio::spawn(async move { bank.t.store.transact(booking(&run, amount)).await }));
    }
    for working in working {
        must!(working.await.unwrap().unwrap(), TransactOutcome::Done { .. });
    }
    assert_eq!(bank.ledger().await, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_work_under_way() {
    let bank = Arc::new(Bank::open(PostgresOptions::default()).await);
    let run = bank.t.driven().await;
    let (begun, mut has_begun) = watch::channel(false);
    let (go_on, may_go_on) = watch::channel(false);
    let begun = Arc::new(begun);
    let slow = transact(&run, move |transaction| {
        let (begun, mut may_go_on) = (begun.clone(), may_go_on.clone());
        Box::pin(async move {
            begun.send_replace(true);
            may_go_on.wait_for(|go| *go).await?;
            book(transaction, 1).await
        })
    });
    let working = tokio::spawn({
        let store = bank.t.store.clone();
        async move { store.transact(slow).await }
    });
    has_begun.wait_for(|begun| *begun).await.unwrap();
    let mut closing = tokio::spawn({
        let store = bank.t.store.clone();
        async move { store.close().await }
    });
    until("turning away what is new", Duration::from_secs(5), async || {
        let new = bank.t.order().new_run();
        matches!(bank.t.store.start_run(new).await, Err(StoreError::Unavailable(_)))
    })
    .await;
    let early = tokio::time::timeout(Duration::from_millis(100), &mut closing).await;
    assert!(early.is_err(), "closed while work was under way");
    go_on.send_replace(true);
    must!(working.await.unwrap().unwrap(), TransactOutcome::Done { .. });
    closing.await.unwrap().unwrap();
    assert_eq!(bank.ledger().await, [1]);
    let late = bank.t.store.transact(booking(&run, 2)).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
}

static TRIES: AtomicU32 = AtomicU32::new(0);

async fn process_order(ctx: Ctx, amount: i64) -> Result<i64, Failure> {
    let booked: i64 = ctx
        .transaction("ledger", move |transaction| {
            Box::pin(async move {
                book(transaction, amount).await?;
                match TRIES.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(Failure::retryable("the first try fails after its write")),
                    _ => Ok(amount),
                }
            })
        })
        .await?;
    let total = ctx.transaction_with("total", RetryPolicy::never(), |transaction| {
        Box::pin(async move {
            let sum = "SELECT sum(amount)::int8 FROM ledger";
            Ok(transaction.query_one(sum, &[]).await?.get::<_, i64>(0))
        })
    });
    Ok(booked + total.await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_books_once_however_often_it_tries() {
    let bank = Bank::open(PostgresOptions::default()).await;
    let store = open(&bank._database.url(), PostgresOptions::default()).await;
    let engine = Engine::launch(store.clone(), store.clock(), EngineOptions::default()).unwrap();
    engine.register("process-order", process_order).unwrap();
    let run = engine.start("process-order", &42i64).await.unwrap();
    let sum: i64 = run.result().await.unwrap();
    assert_eq!((sum, bank.ledger().await), (84, vec![42]));
    assert_eq!(TRIES.load(Ordering::SeqCst), 2);
    engine.shutdown(LEASE).await.unwrap();
    assert_eq!(bank.t.claim(ANN).await, []);
}

/// The engine finds the outcome in the log, and continues from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_whose_commit_is_not_confirmed_books_once() {
    for (way, calls_needed) in [(ProxyMode::LoseAnswerToCommit, 1), (ProxyMode::LoseCommit, 2)] {
        let database = database().await;
        let proxy = Arc::new(Proxy::start(&database.tcp_url()).await);
        let store = open(proxy.url(), PostgresOptions::default()).await;
        let bank = Bank::open_beside(database).await;
        let engine = Engine::launch(store.clone(), store.clock(), EngineOptions::default()).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let (counted, told) = (calls.clone(), proxy.clone());
        let pay = move |ctx: Ctx, amount: i64| {
            let (calls, proxy) = (counted.clone(), told.clone());
            async move {
                ctx.transaction("ledger", move |transaction| {
                    if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                        proxy.set(way);
                    }
                    Box::pin(async move { book(transaction, amount).await })
                })
                .await
            }
        };
        engine.register("pay", pay).unwrap();
        let run = engine.start("pay", &42i64).await.unwrap();
        assert_eq!(run.result::<i64>().await.unwrap(), 42, "{way:?}");
        assert_eq!((bank.ledger().await, calls.load(Ordering::SeqCst)), (vec![42], calls_needed), "{way:?}");
        engine.shutdown(LEASE).await.unwrap();
    }
}

/// Also for a policy with a single attempt: its work never ran while the server was away.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_costs_a_step_no_attempt() {
    let server = Server::start().unwrap();
    let store = open(&server.url("postgres"), PostgresOptions::default()).await;
    let engine = Engine::launch(store.clone(), store.clock(), EngineOptions::default()).unwrap();
    let (begun, mut has_begun) = watch::channel(false);
    let (begun, go_on) = (Arc::new(begun), watch::Sender::new(false));
    let may_go_on = go_on.subscribe();
    let pay = move |ctx: Ctx, (): ()| {
        let (begun, mut may_go_on) = (begun.clone(), may_go_on.clone());
        async move {
            let count = |name: &'static str| {
                ctx.transaction_with(name, RetryPolicy::never(), |transaction| {
                    Box::pin(async move {
                        Ok(transaction.query_one("SELECT 1::int8", &[]).await?.get::<_, i64>(0))
                    })
                })
            };
            // Leaves a connection behind that is dead at its next use.
            count("first").await?;
            begun.send_replace(true);
            may_go_on.wait_for(|go| *go).await?;
            count("second").await
        }
    };
    engine.register("pay", pay).unwrap();
    let run = engine.start("pay", &()).await.unwrap();
    has_begun.wait_for(|begun| *begun).await.unwrap();
    server.stop(Shutdown::Fast).unwrap();
    go_on.send_replace(true);
    server.start_again().unwrap();
    assert_eq!(run.result::<i64>().await.unwrap(), 1);
    engine.shutdown(LEASE).await.unwrap();
}
