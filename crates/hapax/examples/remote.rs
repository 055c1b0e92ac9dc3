//! One program, wherever its runs are: name a store or a server.
//!
//! `cargo run --example remote --features remote -- sqlite:orders.db`, or, with a key in HAPAX_API_KEY,
//! `… -- http://127.0.0.1:7171`.

use std::future::IntoFuture;

use hapax::{Ctx, Hapax, Result, seconds};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
    cents: u64,
}

/// Your call to the provider. It gets the key, and makes one charge however often it is called.
async fn charge(cents: u64, key: String) -> Result<String> {
    Ok(format!("{cents} cents, keyed: {}", key.ends_with(":charge")))
}

async fn process_order(ctx: Ctx, order: Order) -> Result<String> {
    let charge =
        ctx.step("charge", |attempt| charge(order.cents, attempt.idempotency_key().to_string())).await?;
    let paid: bool = ctx.create_promise("paid").with_idempotency_key(format!("bank:{}", order.id)).await?;
    Ok(format!("{}: {charge}, paid: {paid}", order.id))
}

async fn run(url: &str) -> std::result::Result<String, Box<dyn std::error::Error>> {
    let hapax = Hapax::open(url).await?;
    hapax.register("process-order", process_order)?;

    let order = Order { id: "order-789".into(), cents: 4_200 };
    let start = || hapax.start("process-order", &order).idempotency_key("process-order-789").into_future();
    let (first, second) = (start().await?, start().await?);
    hapax.resolve_by_key("bank:order-789", &true).await?;
    let receipt: String = second.result().await?;
    hapax.shutdown(seconds(5)).await?;
    Ok(format!("created {}, then {}\n{receipt}\n", first.created, second.created))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    print!("{}", run(&url).await?);
    Ok(())
}

#[tokio::test]
async fn the_program_runs_in_its_own_engine_as_on_a_server() {
    let said = "created true, then false\norder-789: 4200 cents, keyed: true, paid: true\n";
    assert_eq!(run("memory:").await.unwrap(), said);
}
