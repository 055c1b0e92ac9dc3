//! Judges any HTTP service by the clauses of the Idempotency-Key contract, from outside.
//!
//! A [`Config`] tells how one mutating request of the service looks, how to spoil it, and how to count its effects. The
//! [`Suite`] sends it in all the ways that retries, races and broken connections do, and answers a [`Report`]: for each
//! clause what the rule says, where the rule comes from, and whether the service keeps it. Nothing is drawn here.
//!
//! The profile `ietf` holds a service to draft-ietf-httpapi-idempotency-key-header alone; `hapax` to the whole contract of
//! Hapax. Clauses that need what the config does not give are skipped and say what is missing.
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
pub use suite::{Suite, Unusable};
