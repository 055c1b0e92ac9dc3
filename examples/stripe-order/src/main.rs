//! Orders that wait for their payment, against a Stripe that behaves like the real one: it charges once per `Idempotency-Key`, signs its
//! webhooks, sends each three times, and often sends the first before the charge has even been answered.
//!
//! Run it with `cargo run -p stripe-order`. It prints what happened, and fails if anything happened twice.

mod shop;
mod stripe;
mod tally;

use anyhow::{Result, ensure};

use shop::Shop;
use stripe::Stripe;
use tally::ShopCounts;

/// How many orders there are.
const ORDERS: usize = 30;

async fn run() -> Result<ShopCounts> {
    let stripe = Stripe::start().await?;
    let shop = Shop::open(&stripe).await?;
    // The source is uploaded as anybody would do it; its address goes into Stripe's dashboard.
    let path = shop.upload_source(include_str!("../stripe.yaml")).await?;
    stripe.send_webhooks_to(format!("{}{path}", shop.url));
    let completed = shop.process_orders(ORDERS).await?;
    let webhooks = stripe.wait_for_webhooks().await;
    let tally = ShopCounts {
        orders: ORDERS,
        calls: stripe.calls(),
        charges: stripe.charges(),
        early: stripe.early(),
        webhooks: webhooks.delivered,
        duplicates: webhooks.duplicates,
        completed,
        shipped: shop.shipped().len(),
        twice: stripe.charged_twice() + shop.shipped().values().filter(|count| **count > 1).count(),
    };
    shop.close().await?;
    Ok(tally)
}

#[tokio::main]
async fn main() -> Result<()> {
    let tally = run().await?;
    print!("{tally}");
    ensure!(tally.is_as_it_should_be(), "something was lost, or happened twice");
    Ok(())
}

/// Issue 6: order run → charge → promise → signed webhook delivered three times, once early → the run completes once.
#[tokio::test(flavor = "multi_thread")]
async fn every_order_is_charged_paid_and_shipped_once() {
    let tally = run().await.unwrap();
    assert!(tally.is_as_it_should_be(), "\n{tally}");
    let page = include_str!("../../../docs/webhooks.md");
    assert!(
        page.contains(&format!("```text\n{tally}```\n")),
        "docs/webhooks.md shows something else:\n{tally}"
    );
}
