//! How a run starts, and how a worker claims it.

use std::sync::Arc;
use std::time::Duration;

use super::{
    EventKind, Fence, Generation, Lease, OwnerId, Payload, PendingRequest, RunEvent, RunFacts, RunHead,
    RunState, RunningState, ServedWorkflows, Timestamp, Version,
};
use crate::limits::MAX_STALLS;

/// An engine's offer to drive a run at once, so that a wake-up and its lease are one write.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The engine.
    pub owner: OwnerId,
    /// Duration of the lease.
    pub lease_for: Duration,
    /// The workflows whose code it has.
    pub serves: Arc<ServedWorkflows>,
}

/// Request for a new run.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Immutable facts. The caller chooses the id, so it can recognise its own run after a retry.
    pub facts: Arc<RunFacts>,
    /// Input of the run.
    pub input: Payload,
    /// Earliest start, if it is delayed.
    pub due_at: Option<Timestamp>,
    /// Offer of the caller to drive it at once.
    pub grant: Option<Grant>,
}

/// The first state of a run and the first event of its history.
pub fn decide_start(new: &NewRun, now: Timestamp) -> (RunHead, RunEvent) {
    let due_at = new.due_at.unwrap_or(now);
    let facts = &new.facts;
    let serves = |grant: &&Grant| grant.serves.covers(&facts.workspace, &facts.workflow);
    let grant = new.grant.as_ref().filter(|_| due_at <= now).filter(serves);
    let (state, fence, started_at) = match grant {
        Some(grant) => {
            let lease = Lease { owner: grant.owner, until: now.plus(grant.lease_for) };
            (RunState::Running(RunningState::Leased(lease)), Fence::new(1), Some(now))
        }
        None => (RunState::Pending { due_at }, Fence::default(), None),
    };
    let head = RunHead {
        facts: new.facts.clone(),
        state,
        version: Version::new(1),
        fence,
        generation: Generation::default(),
        asked: PendingRequest::Nothing,
        arrivals: 0,
        stalls: 0,
        started_at,
        changed_at: now,
    };
    let event = RunEvent {
        version: head.version,
        at: now,
        fence,
        kind: EventKind::Started,
        note: grant.map(|grant| grant.owner.to_string()),
    };
    (head, event)
}

/// Outcome of a claim on a run.
#[derive(Debug, Clone)]
#[must_use]
pub enum ClaimDecision {
    /// Not due, or held by a live lease. Leave it alone.
    NotDue,
    /// Granted. Drive it under the new fence.
    Granted(RunHead, RunEvent),
    /// It lost its worker too often. It is quarantined and not granted.
    Quarantined(RunHead, RunEvent),
}

/// Reason for a quarantine, for the history.
pub(super) fn quarantine_note() -> String {
    format!("{MAX_STALLS} leases in a row ended without progress; resume it once the cause is gone")
}

/// Grants the lease if the run is due at `now`. An arrival (`arrived`) makes a waiting run due.
pub fn decide_claim(
    head: &RunHead,
    owner: OwnerId,
    lease_for: Duration,
    now: Timestamp,
    arrived: bool,
) -> ClaimDecision {
    let taken_over = match head.state {
        RunState::Waiting { .. } if arrived => false,
        RunState::Pending { due_at } | RunState::Running(RunningState::Ready { due_at }) if due_at <= now => {
            false
        }
        RunState::Waiting { wake_at: Some(wake_at) } if wake_at <= now => false,
        RunState::Running(RunningState::Leased(lease)) if lease.until <= now => true,
        RunState::Pending { .. }
        | RunState::Running(_)
        | RunState::Waiting { .. }
        | RunState::Paused
        | RunState::Closed { .. } => return ClaimDecision::NotDue,
    };
    let mut next = head.clone();
    next.version = head.version.next();
    next.changed_at = now;
    if taken_over {
        next.stalls = head.stalls + 1;
    }
    let event = |kind, fence, note| RunEvent { version: head.version.next(), at: now, fence, kind, note };
    if next.stalls > MAX_STALLS {
        next.state = RunState::Paused;
        let note = Some(quarantine_note());
        return ClaimDecision::Quarantined(next, event(EventKind::Quarantined, head.fence, note));
    }
    next.fence = head.fence.next();
    next.state = RunState::Running(RunningState::Leased(Lease { owner, until: now.plus(lease_for) }));
    next.started_at = head.started_at.or(Some(now));
    let kind = if taken_over { EventKind::TakenOver } else { EventKind::Claimed };
    let event = event(kind, next.fence, Some(owner.to_string()));
    ClaimDecision::Granted(next, event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{head, new_run, owner};

    const TTL: Duration = Duration::from_secs(30);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_start_with_an_offer_is_born_running() {
        let (head, event) = decide_start(&new_run(Some(owner(1))), at(5));
        assert_eq!(head.state.lease().unwrap().until, at(5).plus(TTL));
        assert_eq!((head.version, head.fence, event.fence), (Version::new(1), Fence::new(1), Fence::new(1)));
        let (head, _) = decide_start(&NewRun { due_at: Some(at(9)), ..new_run(Some(owner(1))) }, at(5));
        assert_eq!(head.state, RunState::Pending { due_at: at(9) }, "a delayed run is not granted early");
    }

    /// Invariants 17 and 19: each grant raises the fence, and a live lease is never taken.
    #[test]
    fn a_living_lease_is_not_taken_and_a_dead_one_is() {
        let (held, _) = decide_start(&new_run(Some(owner(1))), at(0));
        assert!(matches!(decide_claim(&held, owner(2), TTL, at(29_999), true), ClaimDecision::NotDue));
        let ClaimDecision::Granted(taken, event) = decide_claim(&held, owner(2), TTL, at(30_000), false)
        else {
            panic!("the lease has ended");
        };
        assert_eq!(taken.fence, held.fence.next());
        assert_eq!((event.kind, taken.stalls), (EventKind::TakenOver, 1));
    }

    #[test]
    fn an_arrival_makes_only_a_waiting_run_due() {
        let waiting = RunHead { state: RunState::Waiting { wake_at: None }, ..head() };
        assert!(matches!(decide_claim(&waiting, owner(2), TTL, at(0), false), ClaimDecision::NotDue));
        assert!(matches!(decide_claim(&waiting, owner(2), TTL, at(0), true), ClaimDecision::Granted(..)));
        let paused = RunHead { state: RunState::Paused, ..head() };
        assert!(matches!(decide_claim(&paused, owner(2), TTL, at(0), true), ClaimDecision::NotDue));
    }

    /// Fault 44: an input that kills every worker ends in quarantine, not in a crash loop.
    #[test]
    fn a_run_that_keeps_losing_its_worker_is_quarantined() {
        let (mut run, _) = decide_start(&new_run(Some(owner(1))), at(0));
        for n in 1.. {
            match decide_claim(&run, owner(2), TTL, run.state.wake_at().unwrap(), false) {
                ClaimDecision::Granted(next, _) => run = next,
                ClaimDecision::Quarantined(next, _) => {
                    assert_eq!(n, MAX_STALLS + 1);
                    assert_eq!(next.state, RunState::Paused);
                    break;
                }
                ClaimDecision::NotDue => panic!("it is due"),
            }
        }
    }
}
