//! Checks any HTTP service, from outside, against the clauses of the Idempotency-Key contract.
//!
//! A [`Config`] describes one mutating request of the service, how to make it invalid, and how to count its effects.
//! The [`Suite`] sends it in every way that retries, races and broken connections produce, and returns a [`Report`]:
//! the rule of each clause, its source, and whether the service follows it. The suite uses no randomness.
//!
//! The profile `ietf` checks only draft-ietf-httpapi-idempotency-key-header; `hapax` checks the whole contract of
//! Hapax. Clauses that need missing config are skipped, and the report names what is missing.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use hapax_http_conformance::{Config, Suite};
//!
//! let config: Config = serde_json::from_str(r#"{
//!     "request": {
//!         "path": "/orders",
//!         "headers": { "authorization": "Bearer test-key" },
//!         "body": { "amount": 100, "reference": "conformance-{{unique}}" }
//!     },
//!     "otherBody": { "amount": 200 },
//!     "badBody": { "amount": "much" },
//!     "effects": { "path": "/orders?reference=conformance-{{unique}}", "pointer": "/items" }
//! }"#)?;
//! let report = Suite::new("http://127.0.0.1:8080", config)?.run().await?;
//! println!("failed: {:?}", report.list_failed());
//! # Ok(())
//! # }
//! ```
//!
//! The suite makes real effects: run it against a test system.

mod calls;
mod clause;
mod clauses;
mod config;
mod cut;
pub mod limits;
mod report;
mod suite;

pub use clause::{ClauseInfo, list_clauses};
pub use config::{Config, Effects, KeyForm, Profile, Shape};
pub use report::{Outcome, Report, Verdict};
pub use suite::{CannotCheck, Suite};
