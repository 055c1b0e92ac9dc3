//! Hapax as a server: REST over the engine.
//!
//! A request comes in through [`listen`] (connection limits, TLS) and [`connection`] (timeouts,
//! [`validate_uri`]). It passes the layers of [`answer`] (trace id, panics, security headers), is
//! authenticated (a key as in [`credentials`], failures counted by [`rate_limit`]), and is parsed
//! by [`strict_json`]. An error becomes an [`answer::Refused`]. Lists return a [`cursor`] for their
//! next page.

pub mod access;
mod action_token;
pub mod answer;
pub mod authenticate;
pub mod body_budget;
pub mod connection;
pub mod credentials;
mod cross_origin;
pub mod cursor;
pub mod definitions;
pub mod directory;
pub mod drain;
pub mod egress_policy;
pub mod error_pages;
pub mod exposure;
pub mod http_caller;
pub mod identity;
pub mod limits;
pub mod listen;
pub mod logging;
pub mod negotiate;
pub mod openapi;
pub mod otlp;
pub mod proxies;
pub mod rate_limit;
pub mod sealing;
pub mod settle_token;
pub mod strict_json;
pub mod tls;
pub mod trace;
pub mod uploaded;
pub mod validate_uri;
pub mod waiting;

mod app;
mod base62;
mod catalog_watcher;
mod connection_limit;
mod console;
mod docs_page;
#[cfg(test)]
mod document_simulation;
mod entities;
mod errors;
mod event_stream;
mod guard;
mod home;
mod idle_tracked_io;
mod idle_tracker;
mod installation_secret;
mod mask;
mod metrics;
mod nodes;
mod open_runs;
mod options;
mod paced_streams;
mod pages;
mod people;
mod problems;
mod push_workers;
mod quotas;
mod refused_sign_ins;
mod request_body;
mod routes;
mod server;
mod settling;
mod store_probe;
mod trace_layer;
mod translate;
mod webhooks;
mod why;
mod worker_calls;
mod worker_names;

pub use cross_origin::ActionOrigins;
pub use hapax_http_idempotency as http_idempotency;
pub use mask::PAYLOADS;
pub use nodes::{NodeUrl, NotANodeUrl};
pub use options::{EntityTables, ModuleOptions, ServerOptions};
pub use people::settings::{PeopleOptions, ProviderOptions, RoleRule, UnusablePeople};
pub use quotas::QuotaOptions;
pub use routes::list_routes;
pub use server::{LaunchError, Server};
