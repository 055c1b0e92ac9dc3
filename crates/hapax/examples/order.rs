//! An order: started once however often it is asked for, charged once however often the code runs.

use std::sync::atomic::{AtomicU32, Ordering};

use hapax::{Ctx, Hapax, Result};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    cents: u64,
}

static CHARGES: AtomicU32 = AtomicU32::new(0);

/// A real provider gets `key`, and so makes one charge however often it is called.
async fn charge(cents: u64, key: String) -> Result<String> {
    CHARGES.fetch_add(1, Ordering::SeqCst);
    Ok(format!("charge of {cents} cents, keyed: {}", key.ends_with(":charge")))
}

async fn ship() -> Result<()> {
    Ok(())
}

async fn process_order(ctx: Ctx, order: Order) -> Result<String> {
    let charge =
        ctx.step("charge", |attempt| charge(order.cents, attempt.idempotency_key().to_string())).await?;
    ctx.step("ship", |_| ship()).await?;
    Ok(format!("{}: {charge}", order.id))
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let hapax = Hapax::open(&format!("sqlite:{}", folder.path().join("orders.db").display())).await?;
    hapax.register("process-order", process_order)?;

    let order = Order { id: "order-789".into(), cents: 4200 };
    let mut said = String::new();
    for click in 1..=3 {
        let run = hapax
            .start("process-order", &order)
            .idempotency_key(format!("process-order-{}", order.id))
            .await?;
        let receipt: String = run.result().await?;
        said += &format!("click {click}: created {}, {receipt}\n", run.created);
    }
    let other = Order { cents: 9900, ..order };
    let refused = hapax.start("process-order", &other).idempotency_key("process-order-order-789").await;
    said += &format!("another amount under the same key: refused {}\n", refused.is_err());
    said += &format!("charges made: {}\n", CHARGES.load(Ordering::SeqCst));
    hapax.shutdown(hapax::seconds(5)).await?;
    Ok(said)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn three_clicks_are_one_order() {
    let receipt = "order-789: charge of 4200 cents, keyed: true";
    assert_eq!(
        run().await.unwrap(),
        format!(
            "click 1: created true, {receipt}\n\
             click 2: created false, {receipt}\n\
             click 3: created false, {receipt}\n\
             another amount under the same key: refused true\n\
             charges made: 1\n"
        )
    );
}
