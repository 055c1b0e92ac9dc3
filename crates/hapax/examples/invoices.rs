//! Invoices in a table of your own: one is regenerated and one is paid, each by two callers at once, and each happens once.
//!
//! The writes *are* the transition, so they are made in the transaction that moves the status: all of them stand, or none. The claim keeps the second caller out.

use std::error::Error;
use std::sync::Arc;

use hapax::sqlite::TransactionAction;
use hapax::sqlite::rusqlite::Connection;
use hapax::{
    Action, ActionAnswer, ClaimTo, CodeOnlyHost, Engine, EntityStep, EntityStorage, EntityWorkflow, Hapax,
    Result, StepCall, TableRef, TransitionOutcome, minutes,
};
use serde::{Deserialize, Serialize};

const TABLES: &str = "
    CREATE TABLE invoices (id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, updated_at INTEGER NOT NULL,
        number TEXT NOT NULL, net_cents INTEGER NOT NULL, total_cents INTEGER NOT NULL, deleted INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE payments (id TEXT NOT NULL, invoice TEXT NOT NULL, cents INTEGER NOT NULL);
    INSERT INTO invoices (id, status, version, updated_at, number, net_cents, total_cents) VALUES
        ('inv-1', 'sent', 1, 0, '2026-007', 1000, 1000),
        ('inv-2', 'overdue', 1, 0, '2026-008', 500, 600);";

/// One claim state for each status a step begins in, so that a row alone tells where it goes back to after a crash.
fn invoices() -> Result<EntityWorkflow, hapax::model::Invalid> {
    let statuses = [
        "sent",
        "overdue",
        "regenerating_from_sent",
        "replaced",
        "applying_payment_from_sent",
        "applying_payment_from_overdue",
        "paid",
    ];
    let steps = vec![
        EntityStep::new(10, "mark_as_overdue", &["sent"], "overdue")?,
        EntityStep::new(20, "regenerate", &["sent"], "replaced")?
            .claiming(ClaimTo::new("regenerating_from_sent", "sent")?)
            .doing(Action::in_transaction("RegenerateInvoiceUseCase")?),
        EntityStep::new(30, "apply_payment", &["sent"], "paid")?
            .claiming(ClaimTo::new("applying_payment_from_sent", "sent")?)
            .doing(Action::in_transaction("ApplyPaymentUseCase")?),
        EntityStep::new(40, "apply_late_payment", &["overdue"], "paid")?
            .claiming(ClaimTo::new("applying_payment_from_overdue", "overdue")?)
            .doing(Action::in_transaction("ApplyPaymentUseCase")?),
    ];
    let home =
        EntityStorage::UserTable(TableRef { data: vec!["net_cents".into()], ..TableRef::new("invoices")? });
    Ok(EntityWorkflow { home, steps, ..EntityWorkflow::new("invoices", "billing", "invoice", &statuses)? })
}

/// The original is deleted, and a clone with the same number and the right total takes its place.
fn regenerate(connection: &Connection, call: &StepCall) -> Result<ActionAnswer> {
    #[derive(Deserialize)]
    struct Invoice {
        net_cents: i64,
    }
    let original = call.entity.entity.id.as_str();
    let clone = format!("{original}-b");
    let total = call.data::<Invoice>()?.net_cents * 120 / 100;
    connection.execute("UPDATE invoices SET deleted = 1 WHERE id = ?1", [original])?;
    connection.execute(
        "INSERT INTO invoices (id, status, version, updated_at, number, net_cents, total_cents)
         SELECT ?2, 'sent', 1, updated_at, number, net_cents, ?3 FROM invoices WHERE id = ?1",
        (original, &clone, total),
    )?;
    ActionAnswer::done(clone)
}

#[derive(Serialize, Deserialize)]
struct Payment {
    id: String,
    cents: i64,
}

fn apply_payment(connection: &Connection, call: &StepCall) -> Result<ActionAnswer> {
    let payment: Payment = call.input()?;
    connection.execute(
        "INSERT INTO payments (id, invoice, cents) VALUES (?1, ?2, ?3)",
        (&payment.id, call.entity.entity.id.as_str(), payment.cents),
    )?;
    ActionAnswer::done(payment.id)
}

/// Two callers ask for the same at once.
async fn by_two(
    hapax: &Engine,
    id: &str,
    step: &str,
    input: &impl Serialize,
) -> Result<String, Box<dyn Error>> {
    let call = || hapax.transition("invoice", id, step).input(input).into_future();
    let (first, second) = tokio::join!(call(), call());
    let (mut done, mut turned_away) = (0, 0);
    for outcome in [first?, second?] {
        match outcome {
            TransitionOutcome::Done { recorded: false, .. } => done += 1,
            // Another operation is already in progress; or it is over, and the invoice is no longer what the step applies to.
            TransitionOutcome::ClaimFailed { .. } | TransitionOutcome::NotAllowed { .. } => turned_away += 1,
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok(format!("{step} {id}: {done} did it, {turned_away} was turned away\n"))
}

/// Prints the tables, one line for each row.
fn show(connection: &Connection, select: &str) -> Result<String, Box<dyn Error>> {
    let mut rows = connection.prepare(select)?;
    let lines = rows.query_map([], |row| row.get::<_, String>(0))?;
    lines.map(|line| Ok(line? + "\n")).collect()
}

async fn run() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("billing.db");
    let hapax = Hapax::open(&format!("sqlite:{}", path.display())).await?.into_engine()?;
    Connection::open(&path)?.execute_batch(TABLES)?;
    hapax.register_action_in_transaction("RegenerateInvoiceUseCase", regenerate)?;
    hapax.register_action_in_transaction("ApplyPaymentUseCase", apply_payment)?;
    hapax.module("billing").janitor(minutes(2), minutes(5))?;
    hapax.register_entity_workflow(invoices()?, Arc::new(CodeOnlyHost)).await?;
    // Refuses to go on, and names workflow and module, if nobody would free what a crash leaves claimed.
    hapax.check_coverage().await?;

    let mut said = by_two(&hapax, "inv-1", "regenerate", &()).await?;
    let payment = Payment { id: "pay-1".into(), cents: 1200 };
    said += &by_two(&hapax, "inv-1-b", "apply_payment", &payment).await?;
    let payment = Payment { id: "pay-2".into(), cents: 600 };
    said += &by_two(&hapax, "inv-2", "apply_late_payment", &payment).await?;
    hapax.shutdown(hapax::seconds(5)).await?;

    let tables = Connection::open(&path)?;
    let invoices = "SELECT concat('invoice ', id, ', number ', number, ', ', total_cents, ' cents, ', status,
        iif(deleted, ', deleted', '')) FROM invoices ORDER BY id";
    said += &show(&tables, invoices)?;
    said += &show(
        &tables,
        "SELECT concat('payment ', id, ' of ', cents, ' for ', invoice) FROM payments ORDER BY id",
    )?;
    Ok(said)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run().await?);
    Ok(())
}

/// S1.9, S1.10, S1.54.
#[tokio::test]
async fn two_callers_make_one_clone_and_one_payment() {
    assert_eq!(
        run().await.unwrap(),
        "regenerate inv-1: 1 did it, 1 was turned away\n\
         apply_payment inv-1-b: 1 did it, 1 was turned away\n\
         apply_late_payment inv-2: 1 did it, 1 was turned away\n\
         invoice inv-1, number 2026-007, 1000 cents, replaced, deleted\n\
         invoice inv-1-b, number 2026-007, 1200 cents, paid\n\
         invoice inv-2, number 2026-008, 600 cents, paid\n\
         payment pay-1 of 1200 for inv-1-b\n\
         payment pay-2 of 600 for inv-2\n"
    );
}
