//! What people who run a server can see of it: metrics, logs, traces, and what `ops/` makes of them.

mod collector;
mod metrics;
mod named;
mod scrape;
mod told;
