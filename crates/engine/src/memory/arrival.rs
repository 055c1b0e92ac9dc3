//! Signals, and arrivals that wake a run.

use super::state::State;
use crate::limits::MAX_WAITING_SIGNALS;
use crate::model::{Arrival, Grant, RunId, Signal, Timestamp, decide_arrival};
use crate::store::{SendSignal, SignalOutcome};

impl State {
    pub(super) fn send_signal(&mut self, request: SendSignal, now: Timestamp) -> SignalOutcome {
        let Some(row) = self.row_in(&request.workspace, request.run) else {
            return SignalOutcome::NoSuchRun;
        };
        if request.id.as_ref().is_some_and(|id| row.signal_ids.contains(id)) {
            return SignalOutcome::Duplicate;
        }
        if row.head.status().is_closed() {
            return SignalOutcome::Ended(row.head.status());
        }
        if row.signals.len() as u64 >= MAX_WAITING_SIGNALS {
            return SignalOutcome::TooMany;
        }
        let Some(arrival) = self.arrive(request.run, request.grant.as_ref(), now) else {
            return SignalOutcome::NoSuchRun;
        };
        let seq = arrival.head.arrivals;
        let SendSignal { name, payload, id, note, .. } = request;
        self.append_journal(note);
        if let Some(row) = self.row_mut(request.run) {
            row.signal_ids.extend(id.clone());
            row.signals.insert(seq, Signal { seq, name, id, payload, at: now, consumed: false });
        }
        SignalOutcome::Stored { seq, granted: arrival.granted.map(|_| arrival.head) }
    }

    /// Counts an arrival and wakes the run. `None` if the run does not exist.
    pub(super) fn arrive(&mut self, run: RunId, grant: Option<&Grant>, now: Timestamp) -> Option<Arrival> {
        let arrival = decide_arrival(&self.row(run)?.head, grant, now);
        match arrival.granted.clone() {
            Some(event) => self.change(arrival.head.clone(), event),
            None => self.put_head(arrival.head.clone()),
        }
        Some(arrival)
    }
}
