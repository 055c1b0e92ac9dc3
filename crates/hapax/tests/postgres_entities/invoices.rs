//! Steps whose writes are the transition: an invoice that is regenerated, a payment that is applied; also when a process dies in the middle of its transaction.

use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hapax::clock::{Clock, ManualClock, SystemClock};
use hapax::postgres::TransactionAction;
use hapax::postgres::tokio_postgres::{Client, Transaction};
use hapax::{
    Action, ActionAnswer, ClaimTo, CodeOnlyHost, Engine, EntityStep, EntityStorage, EntityWorkflow, Failure,
    Hapax, JanitorReport, Result, StepCall, TableRef, TransitionOutcome,
};
use hapax_postgres_fixture::Database;
use serde_json::json;

use crate::postgres_entities::process::{Process, lines, say};

const TABLES: &str = "CREATE TABLE invoices (id text PRIMARY KEY, status text NOT NULL, version bigint NOT NULL,
        updated_at timestamptz NOT NULL, number text NOT NULL, net bigint NOT NULL, total bigint NOT NULL, deleted boolean NOT NULL DEFAULT false);
    CREATE TABLE payments (id text NOT NULL, invoice text NOT NULL, cents bigint NOT NULL);
    INSERT INTO invoices VALUES ('inv-1', 'sent', 1, now(), '2026-007', 1000, 1000), ('inv-2', 'sent', 1, now(), '2026-008', 500, 600),
        ('inv-3', 'overdue', 1, now(), '2026-009', 500, 600)";

/// Called with where the transaction is, when all is written and nothing committed.
type BeforeCommit = Arc<dyn Fn(&str) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

fn workflow() -> Result<EntityWorkflow> {
    let statuses = [
        "sent",
        "overdue",
        "regenerating_from_sent",
        "replaced",
        "applying_payment_from_sent",
        "applying_payment_from_overdue",
        "paid",
    ];
    let pay = || Action::in_transaction("ApplyPaymentUseCase");
    let steps = vec![
        EntityStep::new(10, "mark_as_overdue", &["sent"], "overdue")?,
        EntityStep::new(20, "regenerate", &["sent"], "replaced")?
            .doing(Action::in_transaction("RegenerateInvoiceUseCase")?)
            .claiming(ClaimTo::new("regenerating_from_sent", "sent")?),
        EntityStep::new(30, "apply_payment", &["sent"], "paid")?
            .doing(pay()?)
            .claiming(ClaimTo::new("applying_payment_from_sent", "sent")?),
        EntityStep::new(40, "apply_late_payment", &["overdue"], "paid")?
            .doing(pay()?)
            .claiming(ClaimTo::new("applying_payment_from_overdue", "overdue")?),
    ];
    let home = EntityStorage::UserTable(TableRef { data: vec!["net".into()], ..TableRef::new("invoices")? });
    Ok(EntityWorkflow { home, steps, ..EntityWorkflow::new("invoices", "billing", "invoice", &statuses)? })
}

/// Takes the original away and puts a clone with the same number and a new total in its place.
async fn regenerate(tx: &Transaction<'_>, call: &StepCall) -> Result<ActionAnswer> {
    let (original, clone) = (call.entity.entity.id.as_str(), format!("{}-b", call.entity.entity.id));
    tx.execute("UPDATE invoices SET deleted = true WHERE id = $1", &[&original]).await?;
    let copy = "INSERT INTO invoices (id, status, version, updated_at, number, net, total)
        SELECT $2, 'sent', 1, now(), number, net, net * 120 / 100 FROM invoices WHERE id = $1";
    tx.execute(copy, &[&original, &clone]).await?;
    ActionAnswer::done(json!({ "clone": clone }))
}

async fn apply_payment(tx: &Transaction<'_>, call: &StepCall) -> Result<ActionAnswer> {
    let payment = call.input::<serde_json::Value>()?["payment"].as_str().unwrap_or_default().to_owned();
    let put = "INSERT INTO payments SELECT $2, id, total FROM invoices WHERE id = $1";
    tx.execute(put, &[&call.entity.entity.id.as_str(), &payment]).await?;
    ActionAnswer::done(json!({ "payment": payment }))
}

async fn open(url: &str, clock: Option<Arc<ManualClock>>, midway: Option<BeforeCommit>) -> Engine {
    let builder = Hapax::builder(url);
    let hapax = match clock {
        Some(clock) => builder.clock(clock).open().await.unwrap().into_engine().unwrap(),
        None => builder.open().await.unwrap().into_engine().unwrap(),
    };
    let stop = midway.clone();
    hapax
        .register_action_in_transaction("RegenerateInvoiceUseCase", move |tx, call| {
            let stop = stop.clone();
            Box::pin(async move {
                let answer = regenerate(tx, &call).await?;
                if let Some(stop) = stop {
                    stop("regenerated").await;
                }
                Ok::<_, Failure>(answer)
            })
        })
        .unwrap();
    hapax
        .register_action_in_transaction("ApplyPaymentUseCase", move |tx, call| {
            let stop = midway.clone();
            Box::pin(async move {
                let answer = apply_payment(tx, &call).await?;
                if let Some(stop) = stop {
                    stop("applied").await;
                }
                Ok::<_, Failure>(answer)
            })
        })
        .unwrap();
    hapax.register_entity_workflow(workflow().unwrap(), Arc::new(CodeOnlyHost)).await.unwrap();
    hapax.module("billing").janitor(hapax::minutes(2), hapax::minutes(5)).unwrap();
    hapax.check_coverage().await.unwrap();
    hapax
}

struct InvoiceTables {
    database: Database,
    admin: Client,
}

impl InvoiceTables {
    async fn new() -> InvoiceTables {
        let database = Database::empty().await.unwrap();
        let admin = database.connect().await.unwrap();
        admin.batch_execute(TABLES).await.unwrap();
        InvoiceTables { database, admin }
    }

    /// The rows under one number, as `id status total`, with a dagger at what is deleted.
    async fn invoices(&self, number: &str) -> Vec<String> {
        let select = "SELECT concat(id, ' ', status, ' ', total, CASE WHEN deleted THEN ' †' END) FROM invoices WHERE number = $1 ORDER BY id";
        self.admin.query(select, &[&number]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn payments(&self) -> Vec<String> {
        let select = "SELECT concat(id, ' ', invoice, ' ', cents) FROM payments ORDER BY id";
        self.admin.query(select, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

/// Two callers on two nodes ask for the same at once.
async fn by_two(nodes: &[Engine; 2], id: &str, step: &str, input: serde_json::Value) {
    let call = |node: &Engine| node.transition("invoice", id, step).input(&input).into_future();
    let (first, second) = tokio::join!(call(&nodes[0]), call(&nodes[1]));
    let outcomes = [first.unwrap(), second.unwrap()];
    let done = outcomes.iter().filter(|outcome| matches!(outcome, TransitionOutcome::Done { .. })).count();
    // Asked while it was under way, or when it was over.
    let refused = |outcome: &&TransitionOutcome| {
        matches!(
            outcome,
            TransitionOutcome::ClaimFailed { existing: Some(_) } | TransitionOutcome::NotAllowed { .. }
        )
    };
    assert_eq!((done, outcomes.iter().filter(refused).count()), (1, 1), "{outcomes:?}");
}

/// S1.2, S1.9: of two who regenerate one invoice at once, one makes a clone, and the original is taken away once.
/// S1.10, S1.54: of two who apply one payment at once, one does, be the invoice sent or overdue.
#[tokio::test(flavor = "multi_thread")]
async fn two_callers_make_one_clone_and_one_payment() {
    let books = InvoiceTables::new().await;
    let nodes =
        [open(&books.database.url(), None, None).await, open(&books.database.url(), None, None).await];
    by_two(&nodes, "inv-1", "regenerate", json!({})).await;
    assert_eq!(books.invoices("2026-007").await, ["inv-1 replaced 1000 †", "inv-1-b sent 1200"]);
    by_two(&nodes, "inv-2", "apply_payment", json!({ "payment": "pay-1" })).await;
    by_two(&nodes, "inv-3", "apply_late_payment", json!({ "payment": "pay-2" })).await;
    assert_eq!(books.payments().await, ["pay-1 inv-2 600", "pay-2 inv-3 600"]);
    assert_eq!(books.invoices("2026-008").await, ["inv-2 paid 600"]);
    assert_eq!(books.invoices("2026-009").await, ["inv-3 paid 600"]);
    for node in nodes {
        node.shutdown(Duration::from_secs(10)).await.unwrap();
    }
}

/// Takes one step, and stops in the middle of its transaction; without its environment it is no test of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doomed_process() {
    let Ok(url) = std::env::var("HAPAX_DOOMED_URL") else { return };
    let (id, step) = (std::env::var("HAPAX_DOOMED_ID").unwrap(), std::env::var("HAPAX_DOOMED_STEP").unwrap());
    let _told = lines();
    let midway: BeforeCommit = Arc::new(|what| {
        say(&json!({ "midway": what }));
        Box::pin(std::future::pending())
    });
    let hapax = open(&url, None, Some(midway)).await;
    let call = hapax.transition("invoice", &id, &step).input(&json!({ "payment": "pay-1" }));
    let outcome = call.idempotency_key("once").await;
    panic!("it was to be killed: {outcome:?}");
}

/// Records before the process is killed, after it, and in the end.
struct Story {
    id: &'static str,
    step: &'static str,
    number: &'static str,
    claimed: &'static str,
    before: &'static str,
    after: &'static [&'static str],
    payments: &'static [&'static str],
}

async fn killed_midway(story: Story) {
    let Story { id, step, number, .. } = story;
    let books = InvoiceTables::new().await;
    let url = books.database.url();
    let (hear, heard) = mpsc::channel();
    let environment = [("HAPAX_DOOMED_URL", &*url), ("HAPAX_DOOMED_ID", id), ("HAPAX_DOOMED_STEP", step)];
    let mut doomed = Process::spawn("postgres_entities::invoices::doomed_process", &environment, hear);
    let midway = heard.recv_timeout(Duration::from_secs(60)).expect("it comes to the middle");
    assert!(midway["midway"].is_string());
    doomed.kill();
    // The claim was committed before the work; nothing of the work is there.
    assert_eq!(
        (books.invoices(number).await, books.payments().await),
        (vec![story.claimed.to_owned()], vec![])
    );

    let clock = Arc::new(ManualClock::new(SystemClock::new().now()));
    let hapax = open(&url, Some(clock.clone()), None).await;
    assert_eq!(hapax.free_stale_claims("billing").await.unwrap(), JanitorReport::default());
    let call = || hapax.transition("invoice", id, step).input(&json!({ "payment": "pay-1" }));
    assert!(matches!(call().await.unwrap(), TransitionOutcome::ClaimFailed { existing: Some(_) }));
    // By the janitor, whether it looks by itself or is asked to.
    clock.advance(hapax::minutes(6));
    hapax.free_stale_claims("billing").await.unwrap();
    while hapax.stats().janitor_releases == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (books.invoices(number).await, books.payments().await),
        (vec![story.before.to_owned()], vec![])
    );
    let again = call().idempotency_key("once").await.unwrap();
    assert!(
        matches!(&again, TransitionOutcome::Done { operation, recorded: false, .. } if operation.attempt == 2),
        "{again:?}"
    );
    let third = call().idempotency_key("once").await.unwrap();
    assert!(matches!(third, TransitionOutcome::Done { recorded: true, .. }), "{third:?}");
    assert_eq!(books.invoices(number).await, story.after);
    assert_eq!(books.payments().await, story.payments);
    hapax.shutdown(Duration::from_secs(10)).await.unwrap();
}

/// S1.9, S1.34, S1.35, S1.38 to S1.41: `kill -9` between the writes and the commit leaves the claim, and no clone.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_while_it_regenerates_leaves_no_clone_and_the_next_try_makes_one() {
    killed_midway(Story {
        id: "inv-1",
        step: "regenerate",
        number: "2026-007",
        claimed: "inv-1 regenerating_from_sent 1000",
        before: "inv-1 sent 1000",
        after: &["inv-1 replaced 1000 †", "inv-1-b sent 1200"],
        payments: &[],
    })
    .await;
}

/// S1.10, S1.34, S1.35, S1.38 to S1.41, S1.54: `kill -9` between the writes and the commit leaves the claim, and no payment.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_while_it_applies_a_payment_leaves_none_and_the_next_try_applies_it_once() {
    killed_midway(Story {
        id: "inv-3",
        step: "apply_late_payment",
        number: "2026-009",
        claimed: "inv-3 applying_payment_from_overdue 600",
        before: "inv-3 overdue 600",
        after: &["inv-3 paid 600"],
        payments: &["pay-1 inv-3 600"],
    })
    .await;
}
