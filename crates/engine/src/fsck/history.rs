//! Checks the history of a run from its start: legal transitions, fences that rise with each grant, writes
//! only under a lease, and a last event that matches the state of the run.

use super::Found;
use super::invariant::{
    COMMITTED_TOGETHER, DECLARED_GRAPH, FENCE_RISES, ONE_ENDING, ONE_LEASE, VERSIONS_COUNT, WRITES_ARE_FENCED,
};
use super::snapshot::Snapshot;
use crate::model::{
    EventKind, Fence, PendingRequest, RUN_TRANSITIONS, RunEvent, RunHead, RunState, RunStatus, RunTransition,
    StepRecord, Timestamp, Version,
};

enum Entry<'a> {
    Event(&'a RunEvent),
    Begun(&'a StepRecord),
    Changed(&'a StepRecord),
}

pub(super) fn check(snapshot: &Snapshot, found: &mut Found) {
    let mut entries: Vec<(Version, Entry<'_>)> = Vec::new();
    entries.extend(snapshot.events.iter().map(|event| (event.version, Entry::Event(event))));
    for step in &snapshot.log.steps {
        entries.push((step.changed_version, Entry::Changed(step)));
        if step.started_version < step.changed_version {
            entries.push((step.started_version, Entry::Begun(step)));
        }
    }
    entries.sort_by_key(|(version, _)| *version);
    let mut walk = HistoryState::new(found);
    for (version, entry) in entries {
        walk.reach(version);
        match entry {
            Entry::Event(event) => walk.event(event),
            Entry::Begun(step) => walk.written_under_lease(&format!("the start of step {}", step.id)),
            Entry::Changed(step) => walk.step(step),
        }
    }
    walk.arrive(&snapshot.log.head);
}

/// State of the run according to its history.
struct HistoryState<'a> {
    found: &'a mut Found,
    version: Version,
    status: Option<RunStatus>,
    is_leased: bool,
    owner: Option<String>,
    fence: Fence,
    asked: PendingRequest,
    /// Endings since it was last reopened.
    endings: usize,
    ended_at: Option<Timestamp>,
}

impl<'a> HistoryState<'a> {
    fn new(found: &'a mut Found) -> Self {
        HistoryState {
            found,
            version: Version::default(),
            status: None,
            is_leased: false,
            owner: None,
            fence: Fence::default(),
            asked: PendingRequest::Nothing,
            endings: 0,
            ended_at: None,
        }
    }

    fn fault(&mut self, invariant: u8, what: String) {
        self.found.push((invariant, what));
    }

    /// Only steps leave gaps in the history, and only the holder of a lease writes steps.
    fn reach(&mut self, version: Version) {
        if version > self.version.next() && !self.is_leased {
            let last = self.version;
            self.fault(
                VERSIONS_COUNT,
                format!("versions between {last} and {version} are missing while nobody held it"),
            );
        }
        self.version = version;
    }

    fn event(&mut self, event: &RunEvent) {
        self.follow_graph(event);
        self.follow_fence(event);
        self.follow_lease(event);
        match event.kind {
            EventKind::PauseRequested => self.asked = PendingRequest::Pause,
            EventKind::CancelRequested => self.asked = PendingRequest::Cancel,
            EventKind::Paused | EventKind::Retried => self.asked = PendingRequest::Nothing,
            // A quarantined run with a pending cancellation still has it when it is resumed.
            EventKind::Resumed if self.asked == PendingRequest::Pause => self.asked = PendingRequest::Nothing,
            kind if kind.is_ending() => self.asked = PendingRequest::Nothing,
            _ => {}
        }
        if event.kind.is_ending() {
            self.endings += 1;
            self.ended_at = Some(event.at);
        }
        if event.kind == EventKind::Retried {
            self.endings = 0;
        }
    }

    fn follow_graph(&mut self, event: &RunEvent) {
        let transition = transition_of(event);
        let target = transition.target(self.status);
        if target.is_none() {
            let from = self.status.map_or("nothing", RunStatus::as_str);
            let (what, version) = (event.kind.as_str(), event.version);
            self.fault(DECLARED_GRAPH, format!("{what} at version {version} cannot follow on {from}"));
        }
        let anyway = RUN_TRANSITIONS.iter().find(|(_, by, _)| *by == transition).map(|(_, _, to)| *to);
        self.status = target.or(anyway);
    }

    fn follow_fence(&mut self, event: &RunEvent) {
        let (before, now, version) = (self.fence, event.fence, event.version);
        match event.kind {
            EventKind::Started => {}
            EventKind::Claimed | EventKind::TakenOver if now <= before => {
                self.fault(FENCE_RISES, format!("a grant at version {version} left the fence at {now}"));
            }
            EventKind::Claimed | EventKind::TakenOver => {}
            _ if now < before => {
                let what = format!("version {version} was written under fence {now} after fence {before}");
                self.fault(WRITES_ARE_FENCED, what);
            }
            _ if now > before => {
                self.fault(
                    FENCE_RISES,
                    format!("the fence rose to {now} at version {version} without a grant"),
                );
            }
            _ => {}
        }
        self.fence = now.max(before);
    }

    fn follow_lease(&mut self, event: &RunEvent) {
        let version = event.version;
        match event.kind {
            EventKind::Started => self.is_leased = event.fence > Fence::default(),
            EventKind::Claimed if self.is_leased => {
                self.fault(ONE_LEASE, format!("a second lease was granted at version {version}"));
            }
            EventKind::TakenOver if !self.is_leased => {
                self.fault(ONE_LEASE, format!("there was no lease to take over at version {version}"));
            }
            EventKind::Waited
            | EventKind::Released
            | EventKind::PauseRequested
            | EventKind::Quarantined
            | EventKind::ContinuedAsNew
            | EventKind::Completed
            | EventKind::Failed => self.written_under_lease(event.kind.as_str()),
            EventKind::Claimed
            | EventKind::TakenOver
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::CancelRequested
            | EventKind::Cancelled
            | EventKind::Retried => {}
        }
        match event.kind {
            EventKind::Claimed | EventKind::TakenOver => self.is_leased = true,
            EventKind::Started
            | EventKind::PauseRequested
            | EventKind::CancelRequested
            | EventKind::ContinuedAsNew => {}
            // A pause that was only requested has not released the lease.
            EventKind::Resumed if self.asked == PendingRequest::Pause => {}
            EventKind::Waited
            | EventKind::Released
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Quarantined
            | EventKind::Completed
            | EventKind::Failed
            | EventKind::Cancelled
            | EventKind::Retried => self.is_leased = false,
        }
        if matches!(event.kind, EventKind::Started | EventKind::Claimed | EventKind::TakenOver) {
            self.owner = event.note.clone();
        }
    }

    fn written_under_lease(&mut self, what: &str) {
        if !self.is_leased {
            let version = self.version;
            self.fault(WRITES_ARE_FENCED, format!("{what} at version {version} while nobody held a lease"));
        }
    }

    fn step(&mut self, step: &StepRecord) {
        self.written_under_lease(&format!("step {}", step.id));
        if step.fence != self.fence {
            let what = format!("step {} was written under fence {}, not {}", step.id, step.fence, self.fence);
            self.fault(WRITES_ARE_FENCED, what);
        }
    }

    /// Compares the end of the history with the state of the run.
    fn arrive(mut self, head: &RunHead) {
        if self.status != Some(head.status()) {
            let leads = self.status.map_or("nothing", RunStatus::as_str);
            let stands = head.status().as_str();
            self.fault(DECLARED_GRAPH, format!("its history leads to {leads}, it stands at {stands}"));
        }
        if self.asked != head.asked {
            let what = format!("its history asks {:?} of it, it remembers {:?}", self.asked, head.asked);
            self.fault(DECLARED_GRAPH, what);
        }
        if head.started_at.is_some() != (head.fence > Fence::default()) {
            self.fault(DECLARED_GRAPH, "it was driven exactly if it has an instant of that".into());
        }
        if self.fence != head.fence {
            let what = format!("its history ends under fence {}, it has {}", self.fence, head.fence);
            self.fault(FENCE_RISES, what);
        }
        match head.state.lease() {
            Some(lease) if !self.is_leased || self.owner != Some(lease.owner.to_string()) => {
                self.fault(ONE_LEASE, format!("{} holds a lease that was not granted to it", lease.owner));
            }
            None if self.is_leased => self.fault(ONE_LEASE, "its lease is gone without a word".into()),
            Some(_) | None => {}
        }
        if self.endings != usize::from(head.status().is_closed()) {
            let what = format!("it is {} with {} endings", head.status().as_str(), self.endings);
            self.fault(ONE_ENDING, what);
        }
        if let RunState::Closed { at, .. } = head.state
            && self.ended_at.is_some_and(|ended_at| ended_at != at)
        {
            self.fault(COMMITTED_TOGETHER, "its row and its history disagree on when it ended".into());
        }
    }
}

fn transition_of(event: &RunEvent) -> RunTransition {
    match event.kind {
        EventKind::Started if event.fence > Fence::default() => RunTransition::StartLeased,
        EventKind::Started => RunTransition::Start,
        EventKind::Claimed | EventKind::TakenOver => RunTransition::Claim,
        EventKind::Waited => RunTransition::Wait,
        EventKind::Released => RunTransition::Release,
        EventKind::PauseRequested => RunTransition::RequestPause,
        EventKind::Paused => RunTransition::Pause,
        EventKind::Resumed => RunTransition::Resume,
        EventKind::CancelRequested => RunTransition::RequestCancel,
        EventKind::Quarantined => RunTransition::Quarantine,
        EventKind::ContinuedAsNew => RunTransition::ContinueAsNew,
        EventKind::Completed => RunTransition::Complete,
        EventKind::Failed => RunTransition::Fail,
        EventKind::Cancelled => RunTransition::Cancel,
        EventKind::Retried => RunTransition::Retry,
    }
}
