//! Items and results that wait for the next commit.

use std::collections::HashMap;

use hapax_api::{RawJson, WorkerLimits, WorkerRunItems};

/// An effect's outcome that must not be lost with its session.
#[derive(Debug, Clone)]
pub(crate) struct Late {
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) output: RawJson,
}

impl Late {
    /// As a result of a commit.
    pub(crate) fn result(&self) -> RawJson {
        let Late { key, attempt, fence, output } = self;
        let late = serde_json::json!({ "key": key, "attempt": attempt, "fence": fence });
        // The output keeps its bytes.
        let mut text = late.to_string();
        text.pop();
        RawJson::from_text(format!("{{\"late\":{text},\"output\":{}}}}}", output.text()))
            .expect("it is put together from JSON")
    }
}

#[derive(Debug)]
struct Entry {
    run: String,
    activation: String,
    items: Vec<RawJson>,
    late: Vec<Late>,
}

/// Limits of one commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommitLimits {
    pub(crate) max_items: usize,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_runs_per_commit: usize,
    pub(crate) max_results: usize,
}

impl From<&WorkerLimits> for CommitLimits {
    fn from(limits: &WorkerLimits) -> Self {
        CommitLimits {
            max_items: limits.max_items,
            max_body_bytes: limits.max_body_bytes,
            max_runs_per_commit: limits.max_runs_per_commit,
            max_results: limits.max_results,
        }
    }
}

/// Contents of one commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) runs: Vec<WorkerRunItems>,
    pub(crate) results: Vec<RawJson>,
    pub(crate) late: Vec<Late>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    entries: Vec<Entry>,
    /// Place of the entry of each activation.
    places: HashMap<String, usize>,
    results: Vec<RawJson>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.results.is_empty()
    }

    pub(crate) fn push(&mut self, run: &str, activation: &str, items: Vec<RawJson>, late: Vec<Late>) {
        if let Some(place) = self.places.get(activation) {
            let entry = &mut self.entries[*place];
            entry.items.extend(items);
            entry.late.extend(late);
            return;
        }
        self.places.insert(activation.to_owned(), self.entries.len());
        self.entries.push(Entry { run: run.to_owned(), activation: activation.to_owned(), items, late });
    }

    pub(crate) fn push_result(&mut self, result: RawJson) {
        self.results.push(result);
    }

    /// Takes what one commit may hold: one thing at least, and what fits.
    pub(crate) fn take(&mut self, limits: &CommitLimits) -> Batch {
        let mut batch = Batch::default();
        let mut room = limits.max_body_bytes.saturating_sub(ENVELOPE_BYTES);
        let mut fits = |bytes: usize, is_first: bool| {
            let fits = is_first || bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let mut rest = Vec::new();
        for mut entry in std::mem::take(&mut self.entries) {
            let too_many = entry.items.len() > limits.max_items;
            let behind = too_many.then(|| entry.items.split_off(limits.max_items));
            let bytes = entry.items.iter().map(|item| item.text().len() + 1).sum::<usize>() + ENTRY_BYTES;
            let has_room = batch.runs.len() < limits.max_runs_per_commit;
            if !rest.is_empty() || !has_room || !fits(bytes, batch.runs.is_empty()) {
                entry.items.extend(behind.unwrap_or_default());
                rest.push(entry);
                continue;
            }
            let Entry { run, activation, items, late } = entry;
            if let Some(items) = behind {
                let (run, activation) = (run.clone(), activation.clone());
                rest.push(Entry { run, activation, items, late: Vec::new() });
            }
            batch.late.extend(late);
            batch.runs.push(WorkerRunItems { run, activation, items });
        }
        self.places =
            rest.iter().enumerate().map(|(place, entry)| (entry.activation.clone(), place)).collect();
        self.entries = rest;
        let mut taken = 0;
        for result in &self.results {
            let is_first = batch.runs.is_empty() && taken == 0;
            if taken == limits.max_results || !fits(result.text().len() + 1, is_first) {
                break;
            }
            taken += 1;
        }
        batch.results = self.results.drain(..taken).collect();
        batch
    }

    /// Takes the outcomes that must not be lost, and forgets everything else.
    pub(crate) fn take_late(&mut self) -> Vec<Late> {
        self.places.clear();
        self.results.clear();
        std::mem::take(&mut self.entries).into_iter().flat_map(|entry| entry.late).collect()
    }
}

/// Room for the rest of a body.
const ENVELOPE_BYTES: usize = 512;
/// Room for what stands around the items of a run.
const ENTRY_BYTES: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CommitLimits =
        CommitLimits { max_items: 3, max_body_bytes: 4_096, max_runs_per_commit: 2, max_results: 10 };

    fn item(bytes: usize) -> RawJson {
        RawJson::from_value(&"x".repeat(bytes)).unwrap()
    }

    fn activations(batch: &Batch) -> Vec<(&str, usize)> {
        batch.runs.iter().map(|run| (run.activation.as_str(), run.items.len())).collect()
    }

    #[test]
    fn items_of_one_activation_travel_together_and_in_order() {
        let mut outbox = Outbox::default();
        outbox.push("r1", "a1", vec![item(1)], Vec::new());
        outbox.push("r2", "a2", vec![item(1)], Vec::new());
        outbox.push("r1", "a1", vec![item(1)], Vec::new());
        assert_eq!(activations(&outbox.take(&LIMITS)), [("a1", 2), ("a2", 1)]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_commit_holds_what_it_may_and_the_rest_keeps_its_order() {
        let mut outbox = Outbox::default();
        for n in 1..=3 {
            outbox.push("r", &format!("a{n}"), vec![item(1)], Vec::new());
        }
        assert_eq!(activations(&outbox.take(&LIMITS)), [("a1", 1), ("a2", 1)]);
        outbox.push("r", "a3", (0..4).map(|_| item(1)).collect(), Vec::new());
        assert_eq!(activations(&outbox.take(&LIMITS)), [("a3", 3)]);
        assert_eq!(activations(&outbox.take(&LIMITS)), [("a3", 2)]);
        outbox.push("r", "large", vec![item(5_000)], Vec::new());
        outbox.push("r", "small", vec![item(1)], Vec::new());
        outbox.push_result(item(4_000));
        assert_eq!(activations(&outbox.take(&LIMITS)), [("large", 1)], "one thing is always sent");
        let batch = outbox.take(&LIMITS);
        assert_eq!((activations(&batch), batch.results.len()), (vec![("small", 1)], 0));
        assert_eq!(outbox.take(&LIMITS).results.len(), 1);
    }

    #[test]
    fn a_late_outcome_keeps_its_bytes() {
        let output = RawJson::from_text("18446744073709551616".into()).unwrap();
        let late = Late { key: "run_1:a\"b".into(), attempt: 2, fence: 3, output };
        assert_eq!(
            late.result().text(),
            r#"{"late":{"attempt":2,"fence":3,"key":"run_1:a\"b","output":18446744073709551616}}"#
        );
    }
}
