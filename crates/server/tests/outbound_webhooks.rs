//! Outgoing webhooks: subscriptions and deliveries.

use crate::support;

#[path = "outbound_webhooks/deliveries.rs"]
mod deliveries;
#[path = "outbound_webhooks/fixture.rs"]
mod fixture;
#[path = "outbound_webhooks/subscriptions.rs"]
mod subscriptions;

const SUBSCRIPTIONS: &str = "/api/v1/webhook-subscriptions";
const DELIVERIES: &str = "/api/v1/webhook-deliveries";
