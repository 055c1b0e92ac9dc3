//! Arrivals: a signal, a settlement or the end of a child comes in for a run.

use super::{ClaimDecision, Grant, RunEvent, RunHead, RunState, Timestamp, decide_claim};

/// Effect of an arrival on a run.
#[derive(Debug, Clone)]
#[must_use]
pub struct Arrival {
    /// The run, with its arrival count raised by one. The version rises only if the run was granted.
    pub head: RunHead,
    /// History event of the grant, if the offer was taken.
    pub granted: Option<RunEvent>,
    /// True if the run is now due and waits to be claimed.
    pub woken: bool,
}

/// Counts the arrival. A waiting run is granted to the caller if there is an offer; otherwise it is due at
/// once.
pub fn decide_arrival(head: &RunHead, grant: Option<&Grant>, now: Timestamp) -> Arrival {
    let mut counted = head.clone();
    counted.arrivals += 1;
    let RunState::Waiting { wake_at } = counted.state else {
        return Arrival { head: counted, granted: None, woken: false };
    };
    if let Some(grant) =
        grant.filter(|grant| grant.serves.covers(&head.facts.workspace, &head.facts.workflow))
        && let ClaimDecision::Granted(head, event) =
            decide_claim(&counted, grant.owner, grant.lease_for, now, true)
    {
        return Arrival { head, granted: Some(event), woken: false };
    }
    counted.state = RunState::Waiting { wake_at: Some(wake_at.map_or(now, |at| at.min(now))) };
    Arrival { head: counted, granted: None, woken: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{leased, new_run, owner};

    const NOW: Timestamp = Timestamp::from_millis(100);

    #[test]
    fn a_waiting_run_is_granted_or_due_and_a_driven_one_only_counts() {
        let grant = new_run(Some(owner(2))).grant.unwrap();
        let waiting = RunHead { state: RunState::Waiting { wake_at: None }, ..leased() };

        let granted = decide_arrival(&waiting, Some(&grant), NOW);
        assert!(granted.granted.is_some());
        assert_eq!(granted.head.state.lease().unwrap().owner, owner(2));
        assert_eq!((granted.head.arrivals, granted.head.version), (1, waiting.version.next()));

        let woken = decide_arrival(&waiting, None, NOW);
        assert!(woken.woken);
        assert_eq!((woken.head.state.wake_at(), woken.head.version), (Some(NOW), waiting.version));

        let driven = decide_arrival(&leased(), Some(&grant), NOW);
        assert_eq!((driven.head.state, driven.head.arrivals, driven.woken), (leased().state, 1, false));
    }
}
