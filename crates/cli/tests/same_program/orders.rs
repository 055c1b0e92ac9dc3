//! The program: an order that uses the whole context, and what must hold wherever its runs are.

use std::time::Duration;

use hapax::{
    Ctx, Error, Failure, FailureClass, Hapax, OnDoubt, ProbeAnswer, Result, RetryPolicy, RunStatus, Settled,
    WorkflowOptions, hours, minutes, seconds,
};
use serde::{Deserialize, Serialize};

use super::bank::Bank;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub id: String,
    pub cents: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub charge: String,
    pub paid: u64,
    pub reference: String,
    pub parts: Vec<u32>,
    pub trip: String,
    pub approved_by: usize,
    pub parcel: String,
}

#[derive(Serialize, Deserialize)]
struct Payment {
    cents: u64,
}

fn soon() -> RetryPolicy {
    RetryPolicy::default().first_wait(Duration::from_millis(5))
}

pub async fn process_order(ctx: Ctx, order: Order, bank: Bank) -> Result<Receipt> {
    // The provider is down once, and makes one charge for a key.
    let charge = ctx
        .step("charge", |attempt| {
            let asked = bank.ask(attempt.idempotency_key());
            let number = attempt.number();
            let charge = format!("ch_{}", order.id);
            async move {
                match asked {
                    0 => Err(Failure::retryable("503")),
                    _ => Ok::<_, Failure>((charge, number)),
                }
            }
        })
        .retry(soon())
        .await?;
    let began_at = ctx.now().await?;
    let lucky: u64 = ctx.random().await?;
    let paid: Payment = ctx
        .create_promise("payment")
        .with_idempotency_key(format!("bank:{}", charge.0))
        .timeout(minutes(5))
        .await?;
    // The answer is lost, and the bank can be asked.
    let asked = bank.clone();
    let reference = ctx
        .step("wire", |attempt| {
            bank.ask(attempt.idempotency_key());
            async { Err::<String, _>(Failure::unknown("the answer was lost")) }
        })
        .claimed()
        .probe(move |key| {
            let asked = asked.clone();
            async move {
                asked.ask(&format!("{key}-probe"));
                Ok::<_, Failure>(ProbeAnswer::Happened("W-1".to_string()))
            }
        })
        .await?;
    let parts = ["box", "tape", "label"].into_iter().enumerate().map(|(n, part)| {
        let bank = bank.clone();
        ctx.step(part, move |attempt| {
            bank.ask(attempt.idempotency_key());
            async move { Ok::<_, Failure>(u32::try_from(n).unwrap_or(0)) }
        })
    });
    let parts = ctx.join_all(parts).await.into_iter().collect::<Result<Vec<_>>>()?;
    let trip = book_trip(&ctx, &bank).await?;
    let decision = ctx.signal::<bool>("approved");
    let too_late = async { ctx.sleep(hours(24)).await.map(|()| false) };
    let (approved_by, approved) = ctx.select((too_late, decision)).await?;
    if !approved? {
        return Err(Failure::permanent("not approved"));
    }
    ctx.sleep(Duration::from_millis(10)).await?;
    let parcel: String = ctx.child("ship", &order).await?;
    assert!(ctx.now().await? >= began_at);
    assert_eq!(ctx.remember("lucky", || lucky)?, lucky);
    let (charge, attempt) = charge;
    Ok(Receipt {
        charge: format!("{charge} at attempt {attempt}"),
        paid: paid.cents,
        reference,
        parts,
        trip,
        approved_by,
        parcel,
    })
}

/// A scope that fails: what it did is undone, and the order goes on.
async fn book_trip(ctx: &Ctx, bank: &Bank) -> Result<String> {
    let (booked, undone) = (bank.clone(), bank.clone());
    let trip = ctx
        .scope(|ctx| async move {
            ctx.step("book-hotel", |attempt| {
                booked.ask(attempt.idempotency_key());
                async { Ok::<_, Failure>("H-1".to_string()) }
            })
            .compensate(move |_, booking: String| {
                undone.ask(&format!("{booking}:undo-hotel"));
                async { Ok::<_, Failure>(()) }
            })
            .await?;
            ctx.step("book-car", |_| async { Err::<String, _>(Failure::permanent("no cars left")) }).await
        })
        .await;
    match trip {
        Ok(trip) => Ok(trip),
        Err(failure) if failure.class() == FailureClass::Permanent => {
            Ok(format!("no trip: {}", failure.message()))
        }
        Err(failure) => Err(failure),
    }
}

async fn ship(_: Ctx, order: Order) -> Result<String> {
    Ok(format!("P-{}", order.id))
}

/// Adds up to ten, one generation for each number.
async fn count(ctx: Ctx, so_far: Vec<u32>) -> Result<usize> {
    match so_far.len() {
        10 => Ok(so_far.len()),
        n => {
            let n = ctx.step("next", move |_| async move { Ok::<_, Failure>(n) }).await?;
            let next: Vec<u32> = (0..=u32::try_from(n).unwrap_or(0)).collect();
            ctx.continue_as_new(&Numbers { numbers: next })
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Numbers {
    numbers: Vec<u32>,
}

async fn doubtful(ctx: Ctx, order: Order) -> Result<String> {
    ctx.step("wire", |_| async { Err::<String, _>(Failure::unknown("the answer was lost")) })
        .claimed()
        .on_doubt(OnDoubt::Hold)
        .await
        .map(|reference| format!("{} {reference}", order.id))
}

pub fn register(hapax: &Hapax, bank: &Bank) {
    let bank = bank.clone();
    hapax
        .register("process-order", move |ctx, order: Order| process_order(ctx, order, bank.clone()))
        .unwrap();
    hapax.register("ship", ship).unwrap();
    hapax.register("count", |ctx, from: Numbers| count(ctx, from.numbers)).unwrap();
    hapax.register_with("doubtful", WorkflowOptions::default().version(2), doubtful).unwrap();
}

pub async fn check_program(hapax: &Hapax, bank: &Bank) {
    register(hapax, bank);
    let order = Order { id: "order-7".into(), cents: 4_200 };
    let start = |order: &Order| hapax.start("process-order", order).idempotency_key("process-order-7");
    let run = start(&order).await.unwrap();
    assert!(run.created);
    let again = start(&order).await.unwrap();
    assert_eq!((again.created, again.id()), (false, run.id()));
    assert!(start(&Order { cents: 1, ..order.clone() }).await.is_err(), "another order under the same key");

    // Webhooks may come before the promise does.
    let payment = Payment { cents: order.cents };
    let settled = hapax.resolve_by_key("bank:ch_order-7", &payment).await.unwrap();
    assert!(matches!(settled, Settled::Settled | Settled::KeptEarly { .. }), "{settled:?}");
    assert!(run.signal("approved", &true, Some("click-1")).await.unwrap());
    assert!(!run.signal("approved", &false, Some("click-1")).await.unwrap(), "a second click is none");
    let receipt: Receipt = run.result().await.unwrap();
    assert_eq!(
        receipt,
        Receipt {
            charge: "ch_order-7 at attempt 2".into(),
            paid: 4_200,
            reference: "W-1".into(),
            parts: vec![0, 1, 2],
            trip: "no trip: no cars left".into(),
            approved_by: 1,
            parcel: "P-order-7".into(),
        }
    );
    let counts =
        ["charge", "wire", "box", "tape", "label", "book-hotel", "undo-hotel"].map(|step| bank.count(step));
    assert_eq!(counts, [2, 2, 1, 1, 1, 1, 1], "one request for each effect, one retry, one probe");
    assert_eq!(hapax.run(run.id()).await.unwrap().status().await.unwrap(), RunStatus::Completed);
    assert!(matches!(
        hapax.resolve_by_key("bank:ch_order-7", &payment).await.unwrap(),
        Settled::AlreadySettled
    ));
    assert!(hapax.resolve_by_key("bank:ch_order-7", &Payment { cents: 1 }).await.is_err());

    let counted = hapax.start("count", &Numbers::default()).await.unwrap();
    assert_eq!(counted.result::<usize>().await.unwrap(), 10);
    check_cancelled(hapax, &order).await;
    check_doubt(hapax, &order).await;
    hapax.shutdown(seconds(10)).await.unwrap();
}

async fn check_cancelled(hapax: &Hapax, order: &Order) {
    let run = hapax.start("process-order", &Order { id: "order-8".into(), ..order.clone() }).await.unwrap();
    run.cancel("the customer changed their mind").await.unwrap();
    let cancelled = run.result::<Receipt>().await.unwrap_err();
    assert!(matches!(cancelled, Error::Cancelled { .. }), "{cancelled}");
    assert_eq!(run.cancel("twice").await.unwrap(), RunStatus::Cancelled);
}

async fn check_doubt(hapax: &Hapax, order: &Order) {
    let run = hapax.start("doubtful", order).version(2).await.unwrap();
    let doubt = loop {
        match hapax.list_doubts(10).await.unwrap().into_iter().find(|doubt| doubt.run == run.id()) {
            Some(doubt) => break doubt,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(doubt.key.as_str(), format!("{}:wire", run.id()));
    let ruling = hapax::Ruling {
        resolution: hapax::Resolution::Happened { output: "W-9".into() },
        by: hapax::Actor::new("ada", hapax::Role::Manager),
        seconded_by: None,
        reason: "seen at the bank".into(),
    };
    hapax.resolve_doubt(&doubt.as_seen(), ruling).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "order-7 W-9");
}
