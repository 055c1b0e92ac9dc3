//! The workflow of the demo: what a user of Hapax would write.

use hapax::{Ctx, Result};
use serde::{Deserialize, Serialize};

use super::providers::Providers;

/// The name the workflow is registered under.
pub(super) const WORKFLOW: &str = "process-order";

/// An order of a customer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) number: u32,
    pub(super) cents: u64,
}

/// Receipt of an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Receipt {
    charge: String,
    parcel: String,
}

impl Order {
    pub(super) fn new(number: u32) -> Self {
        Order { number, cents: 1_000 + u64::from(number) * 7 }
    }

    /// Idempotency key of an order: a second start of the same order is the same run.
    pub(super) fn key(&self) -> String {
        format!("process-order-{}", self.number)
    }
}

/// Four effects in the outside world, each recorded when it is done.
pub(super) async fn process_order(ctx: Ctx, order: Order, providers: Providers) -> Result<Receipt> {
    ctx.step("reserve", |attempt| providers.reserve(&order, attempt)).await?;
    let charge = ctx.step("charge", |attempt| providers.charge(&order, attempt)).await?;
    let parcel = ctx.step("ship", |attempt| providers.ship(&order, attempt)).await?;
    ctx.step("mail", |attempt| providers.mail(&order, attempt)).await?;
    Ok(Receipt { charge, parcel })
}
