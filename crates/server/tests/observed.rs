//! Observability for operators: metrics, logs, traces, and `ops/`.

mod collector;
mod metrics;
mod named;
mod scrape;
mod told;
