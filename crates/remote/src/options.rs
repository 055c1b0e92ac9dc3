//! Options of a connection to a server.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::{Clock, SystemClock};
use secrecy::SecretString;

use crate::limits::{CONCURRENCY, MAX_RESIDENT_RUNS};

/// Options of a connection to a server.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Key of a credential.
    pub api_key: SecretString,
    /// Attempts, tasks and actions under way at once.
    pub concurrency: u32,
    /// Suspended runs kept in memory.
    pub max_resident: usize,
    /// Name of the worker, for people.
    pub name: String,
    /// Name of this worker slot over restarts. A program that opens a session under it takes over at once. What is
    /// registered later has a session of its own, under this name and a number.
    pub instance: Option<String>,
    /// Clock that holds go by. It counts time that the machine spent suspended.
    pub clock: Arc<dyn Clock>,
    /// How long a call is sent again while the server does not answer.
    pub patience: Option<Duration>,
}

impl RemoteOptions {
    /// The usual options, with this key.
    pub fn new(api_key: SecretString) -> Self {
        RemoteOptions {
            api_key,
            concurrency: CONCURRENCY,
            max_resident: MAX_RESIDENT_RUNS,
            name: std::env::args().next().map_or_else(|| "rust".into(), |program| file_name(&program)),
            instance: None,
            clock: Arc::new(SystemClock::new()),
            patience: None,
        }
    }
}

fn file_name(program: &str) -> String {
    let name = std::path::Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = name.unwrap_or_default().chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    if name.is_empty() { "rust".into() } else { name }
}
