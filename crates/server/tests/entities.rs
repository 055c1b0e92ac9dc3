//! Entities over HTTP: uploads of workflows, steps that are taken once, and allowed actions during
//! an operation.

use crate::support;

#[path = "entities/after_effects.rs"]
mod after_effects;
#[path = "entities/bad_input.rs"]
mod bad_input;
#[path = "entities/coverage.rs"]
mod coverage;
#[path = "entities/crowds.rs"]
mod crowds;
#[path = "entities/deleted.rs"]
mod deleted;
#[path = "entities/effects.rs"]
mod effects;
#[path = "entities/invoice_fixture.rs"]
pub mod invoice_fixture;
#[path = "entities/janitors.rs"]
mod janitors;
#[path = "entities/keys.rs"]
mod keys;
#[path = "entities/own_tables.rs"]
mod own_tables;
#[path = "entities/paused.rs"]
mod paused;
#[path = "entities/payments.rs"]
mod payments;
#[path = "entities/refunds.rs"]
mod refunds;
#[path = "entities/replaced.rs"]
mod replaced;
#[path = "entities/stores.rs"]
mod stores;
#[path = "entities/support_desk.rs"]
pub mod support_desk;
#[path = "entities/uploads.rs"]
mod uploads;
