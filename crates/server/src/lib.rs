//! Hapax as a server: REST over the engine.
//!
//! A request comes in through [`listen`] (caps on connections, TLS) and [`connection`] (timeouts, [`screen`]), meets the
//! layers of [`answer`] (trace id, panics, security headers), is authenticated (a key as in [`credentials`], failures
//! counted by [`rate_limit`]), and is read by [`strict_json`]. What goes wrong on the way is a [`answer::Refused`]. Lists
//! hand out a [`cursor`] for their next page.

pub mod access;
pub mod answer;
pub mod authenticate;
pub mod body_budget;
pub mod connection;
pub mod credentials;
pub mod cursor;
pub mod definitions;
pub mod directory;
pub mod drain;
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
pub mod screen;
pub mod sealing;
pub mod settle_token;
pub mod strict_json;
pub mod tls;
pub mod trace;
pub mod uploaded;
pub mod waiting;
pub mod ways_out;

mod app;
mod base62;
mod changed_items;
#[cfg(test)]
mod document_simulation;
mod entities;
mod errors;
mod event_stream;
mod guard;
mod hooks;
mod installation_secret;
mod metrics;
mod observed;
mod options;
mod paced_streams;
mod pages;
mod problems;
mod pulse;
mod request_body;
mod routes;
mod seats;
mod server;
mod settling;
mod store_probe;
mod subscriptions;
mod translate;
mod watched_io;

pub use hapax_http_idempotency as http_idempotency;
pub use options::{EntityTables, ModuleOptions, ServerOptions};
pub use routes::list_routes;
pub use server::{LaunchError, Server};
