//! Examples of requests and responses. A test records them from a real server, and checks that they
//! stay true.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// One exchange with a server.
#[derive(Debug, Deserialize)]
pub(crate) struct Example {
    pub(crate) request: Request,
    pub(crate) answer: Answer,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// Path with its values, and the query.
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<Value>,
}

/// Examples by operation.
type Examples = BTreeMap<String, Vec<Example>>;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("examples/", $name, ".json")))),*];
    };
}

files! {
    "compatibility", "definitions", "doubts", "entities", "entity_workflows", "keys", "ledger",
    "promises", "runs", "server", "admin", "webhook_deliveries", "webhook_events", "webhook_sources",
    "webhook_subscriptions", "workers",
}

static ALL: LazyLock<Examples> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        let examples: Examples =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("examples/{name}.json: {error}"));
        examples
    };
    FILES.iter().flat_map(read).collect()
});

/// Examples of an operation, the usual outcome first.
pub(crate) fn of(operation: &str) -> &'static [Example] {
    ALL.get(operation).map_or(&[], Vec::as_slice)
}
