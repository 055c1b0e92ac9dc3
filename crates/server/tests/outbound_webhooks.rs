//! Outgoing webhooks: subscriptions and deliveries.

use crate::support;

#[path = "outbound_webhooks/deliveries.rs"]
mod deliveries;
#[path = "outbound_webhooks/out.rs"]
mod out;
#[path = "outbound_webhooks/subscriptions.rs"]
mod subscriptions;

const SUBSCRIPTIONS: &str = "/api/v1/webhook-subscriptions";
const DELIVERIES: &str = "/api/v1/webhook-deliveries";
