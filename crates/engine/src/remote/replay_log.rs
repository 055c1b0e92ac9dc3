//! Records of a run: found by id when the code asks, and given to it in their order.

use std::collections::{HashMap, VecDeque};

use super::items::{Record, RecordKind};
use crate::model::{Failure, Payload};

type Outcome = Result<Payload, Failure>;

#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    /// Records that the code has not asked for, by id.
    unasked: HashMap<String, (usize, RecordKind, Option<Outcome>)>,
    /// Outcomes that the code has not been given, in their order, with the place of their record.
    outcomes: VecDeque<(String, Outcome)>,
}

/// A record that the code asks for.
pub(super) struct Found {
    pub(super) kind: RecordKind,
    /// The outcome of a value. Any other comes in its turn.
    pub(super) value: Option<Outcome>,
}

impl ReplayLog {
    pub(super) fn new(log: Vec<Record>) -> Self {
        let mut replay = ReplayLog::default();
        for (place, record) in log.into_iter().enumerate() {
            // Undos and doubts belong to the server.
            if record.id.contains('~') {
                continue;
            }
            let is_value = record.kind == RecordKind::Value;
            let value = match (is_value, record.outcome) {
                (true, outcome) => outcome,
                (false, None) => None,
                (false, Some(outcome)) => {
                    replay.outcomes.push_back((record.id.clone(), outcome));
                    None
                }
            };
            replay.unasked.insert(record.id, (place, record.kind, value));
        }
        replay
    }

    /// The record of an operation that the code asks for.
    pub(super) fn ask(&mut self, id: &str) -> Option<Found> {
        let (_, kind, value) = self.unasked.remove(id)?;
        Some(Found { kind, value })
    }

    /// Id of the next outcome.
    pub(super) fn next(&self) -> Option<&str> {
        self.outcomes.front().map(|(id, _)| id.as_str())
    }

    pub(super) fn take_next(&mut self) -> Option<(String, Outcome)> {
        self.outcomes.pop_front()
    }

    /// The server gives this outcome itself.
    pub(super) fn use_up(&mut self, id: &str) {
        if let Some(place) = self.outcomes.iter().position(|(next, _)| next == id) {
            self.outcomes.remove(place);
        }
    }

    /// The kind of a record that the code has not asked for.
    pub(super) fn kind_of_unasked(&self, id: &str) -> Option<RecordKind> {
        self.unasked.get(id).map(|(_, kind, _)| *kind)
    }

    /// The first record that the code has not asked for.
    pub(super) fn first_unasked(&self) -> Option<(&str, RecordKind)> {
        let first = self.unasked.iter().min_by_key(|(_, (place, ..))| *place);
        first.map(|(id, (_, kind, _))| (id.as_str(), *kind))
    }
}
