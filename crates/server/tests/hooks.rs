//! Incoming webhooks: verification, deduplication and actions.

use crate::support;

#[path = "hooks/log.rs"]
mod log;
#[path = "hooks/presets.rs"]
mod presets;
#[path = "hooks/processing.rs"]
mod processing;
#[path = "hooks/refused.rs"]
mod refused;
#[path = "hooks/replayed.rs"]
mod replayed;
#[path = "hooks/shop.rs"]
mod shop;
#[path = "hooks/signing.rs"]
mod signing;
#[path = "hooks/sources.rs"]
mod sources;
#[path = "hooks/stores.rs"]
mod stores;
