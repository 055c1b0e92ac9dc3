//! A provider that counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Requests to the provider, by effect key without the run.
#[derive(Clone, Default)]
pub struct Bank(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Bank {
    /// Notes a request; returns how many came under this step before.
    pub fn ask(&self, key: &str) -> usize {
        let (run, step) = key.split_once(':').unwrap();
        let mut asked = self.0.lock().unwrap();
        let requests = asked.entry(step.to_owned()).or_default();
        requests.push(run.to_owned());
        requests.len() - 1
    }

    /// How many requests came under the steps whose name begins so.
    pub fn count(&self, step: &str) -> usize {
        let asked = self.0.lock().unwrap();
        asked.iter().filter(|(known, _)| known.starts_with(step)).map(|(_, requests)| requests.len()).sum()
    }
}
