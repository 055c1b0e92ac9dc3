//! Incoming webhooks: verification, deduplication and actions.

use crate::support;

#[path = "inbound_webhooks/log.rs"]
mod log;
#[path = "inbound_webhooks/presets.rs"]
mod presets;
#[path = "inbound_webhooks/processing.rs"]
mod processing;
#[path = "inbound_webhooks/refused.rs"]
mod refused;
#[path = "inbound_webhooks/replayed.rs"]
mod replayed;
#[path = "inbound_webhooks/shop.rs"]
mod shop;
#[path = "inbound_webhooks/signing.rs"]
mod signing;
#[path = "inbound_webhooks/sources.rs"]
mod sources;
#[path = "inbound_webhooks/stores.rs"]
mod stores;
