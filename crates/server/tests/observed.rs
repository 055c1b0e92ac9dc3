//! Observability for operators: metrics, logs, traces, and `ops/`.

mod collector;
mod logs_and_traces;
mod metrics;
mod named;
mod scrape;
