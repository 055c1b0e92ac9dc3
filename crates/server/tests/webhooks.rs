//! Webhooks.

use crate::support;

#[path = "webhooks/deliveries.rs"]
mod deliveries;
#[path = "webhooks/out.rs"]
mod out;
#[path = "webhooks/subscriptions.rs"]
mod subscriptions;

const SUBSCRIPTIONS: &str = "/api/v1/webhook-subscriptions";
const DELIVERIES: &str = "/api/v1/webhook-deliveries";
