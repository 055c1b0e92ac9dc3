//! Counts of the outcomes that random requests produced: a test that never saw an outcome has not tested it.

use std::collections::BTreeMap;

use hapax_engine::model::{ChildrenRefused, EventKind, OutboxStatus, PromiseState, Refusal};
use hapax_engine::store::*;

use super::entity_request;
use super::request::Answer;

/// Number of answers of each kind, by verb.
#[derive(Debug, Default, Clone)]
pub struct AnswerCoverage(BTreeMap<String, u64>);

/// Every answer that a run of seeds must produce.
const WANTED: &[&str] = &[
    "start: created",
    "start: existing",
    "start: spent",
    "start: key conflict",
    "start: subject busy",
    "claim: nothing",
    "claim: granted",
    "renew: all held",
    "renew: some lost",
    "advance: advanced",
    "advance: advanced, others woken",
    "advance: advanced, promise settled",
    "advance: advanced, promise without its key",
    "advance: advanced, promise known",
    "advance: too many descendants",
    "advance: family cancelled",
    "advance: stale",
    "advance: lease lost",
    "steer: steered",
    "steer: no such run",
    "steer: refused, ended",
    "steer: refused, already asked",
    "steer: refused, not paused",
    "steer: refused, not failed",
    "steer: refused, no such step",
    "steer: refused, undone",
    "steer: refused, in doubt",
    "steer: refused, key taken",
    "steer: refused, subject busy",
    "steer: refused, stale",
    "signal: stored",
    "signal: stored, granted",
    "signal: duplicate",
    "signal: ended",
    "signal: no such run",
    "settle: settled",
    "settle: settled, granted",
    "settle: already settled, same",
    "settle: already settled, other",
    "settle: timed out",
    "settle: settled, others woken",
    "settle: kept",
    "settle: already kept, same",
    "settle: already kept, other",
    "settle: no such promise",
    "purge: keys",
    "purge: early settlements",
    "purge: runs",
    "purge: more to do",
    "purge: nothing",
    "find run: found",
    "find run: none",
    "find log: found",
    "find log: none",
    "list runs: more",
    "list runs: last",
    "list events: some",
    "list events: none",
    "find key: found",
    "find key: none",
    "list keys: some",
    "list keys: none",
    "find promise: found",
    "find promise: none",
    "append notes",
    "list notes: some",
    "list notes: none",
    "count tallies: some",
    "list doubts: some",
    "list doubts: none",
    "claim posts: some",
    "claim posts: some, more later",
    "claim posts: none",
    "claim posts: none, some later",
    "finish post: finished",
    "finish post: too late",
    "redeliver: due",
    "redeliver: forgotten",
    "redeliver: under way",
    "redeliver: no such post",
    "list posts: some",
    "list posts: none",
    "cancel family: cancelled",
    "cancel family: not a root",
    "cancel family: stale",
    "cancel family: no such run",
    "sweep family: nobody",
    "sweep family: some",
    "sweep family: some, more to do",
    "list unswept families: some",
    "list unswept families: none",
    "left: a post that was there",
    "left: a note of an engine",
    "left: a note of a person",
    "left: a doubt in an open run",
    "left: a doubt in an ended run",
    "refused",
];

/// Write of a row in the user's table; counted only if there is one.
const TABLES: &str = "put row";

impl AnswerCoverage {
    pub(super) fn note_row(&mut self) {
        *self.0.entry(TABLES.into()).or_default() += 1;
    }

    pub(super) fn note(&mut self, answer: &Answer) {
        *self.0.entry(label(answer)).or_default() += 1;
    }

    pub(super) fn note_event(&mut self, kind: EventKind) {
        *self.0.entry(event_label(kind)).or_default() += 1;
    }

    pub(super) fn note_left(&mut self, what: &str) {
        *self.0.entry(format!("left: {what}")).or_default() += 1;
    }

    /// Adds the outcomes of another seed.
    pub fn add(&mut self, other: AnswerCoverage) {
        for (label, count) in other.0 {
            *self.0.entry(label).or_default() += count;
        }
    }

    /// Panics if an outcome or an event never occurred.
    pub fn assert_complete(&self) {
        let of_tables = match self.0.contains_key(TABLES) {
            true => entity_request::WANTED_OF_TABLES,
            false => &[],
        };
        let wanted = WANTED.iter().chain(entity_request::WANTED).chain(of_tables);
        let wanted = wanted.map(|label| (*label).to_owned());
        let wanted = wanted.chain(EventKind::ALL.into_iter().map(event_label));
        let posts = OutboxStatus::ALL.into_iter().map(|status| format!("left: a post, {}", status.as_str()));
        let wanted = wanted.chain(posts);
        let missing: Vec<String> = wanted.filter(|label| !self.0.contains_key(label)).collect();
        assert!(missing.is_empty(), "never met with: {missing:#?}\nmet with: {:#?}", self.0);
    }
}

fn event_label(kind: EventKind) -> String {
    format!("event: {}", kind.as_str())
}

fn label(answer: &Answer) -> String {
    let found = |verb: &str, found: bool| format!("{verb}: {}", if found { "found" } else { "none" });
    let some = |verb: &str, none: bool| format!("{verb}: {}", if none { "none" } else { "some" });
    match answer {
        Answer::Start(outcome) => format!("start: {}", start(outcome)),
        Answer::Claim(claimed) => {
            format!("claim: {}", if claimed.runs.is_empty() { "nothing" } else { "granted" })
        }
        Answer::Renew(lost) => format!("renew: {}", if lost.is_empty() { "all held" } else { "some lost" }),
        Answer::RunCommit(outcome) => format!("advance: {}", advance(outcome)),
        Answer::RunCommand(RunCommandOutcome::Accepted(_)) => "steer: steered".into(),
        Answer::RunCommand(RunCommandOutcome::NoSuchRun) => "steer: no such run".into(),
        Answer::RunCommand(RunCommandOutcome::Refused(refusal, _)) => {
            format!("steer: refused, {}", refused(refusal))
        }
        Answer::Signal(outcome) => format!("signal: {}", signal(outcome)),
        Answer::Settle(outcome) => format!("settle: {}", settle(outcome)),
        Answer::Purge(purged) => format!("purge: {}", purge(*purged)),
        Answer::FindRun(run) => found("find run", run.is_some()),
        Answer::FindLog(log) => found("find log", log.is_some()),
        Answer::ListRuns(page) => format!("list runs: {}", if page.next.is_some() { "more" } else { "last" }),
        Answer::ListEvents(events) => some("list events", events.is_empty()),
        Answer::FindKey(key) => found("find key", key.is_some()),
        Answer::ListKeys(keys) => some("list keys", keys.is_empty()),
        Answer::FindPromise(promise) => found("find promise", promise.is_some()),
        Answer::AppendJournal => "append notes".into(),
        Answer::ListJournal(notes) => some("list notes", notes.is_empty()),
        Answer::CountTallies(tallies) => some("count tallies", tallies.is_empty()),
        Answer::ListDoubts(doubts) => some("list doubts", doubts.is_empty()),
        Answer::ClaimOutbox(claimed) => format!("claim posts: {}", claimed_posts(claimed)),
        Answer::FinishOutboxMessage(true) => "finish post: finished".into(),
        Answer::FinishOutboxMessage(false) => "finish post: too late".into(),
        Answer::Redeliver(RedeliverOutcome::Due(_)) => "redeliver: due".into(),
        Answer::Redeliver(RedeliverOutcome::Discarded(_)) => "redeliver: forgotten".into(),
        Answer::Redeliver(RedeliverOutcome::UnderWay(_)) => "redeliver: under way".into(),
        Answer::Redeliver(RedeliverOutcome::NoSuchMessage) => "redeliver: no such post".into(),
        Answer::ListOutbox(posts) => some("list posts", posts.is_empty()),
        Answer::CancelFamily(outcome) => format!("cancel family: {}", cancel_family(outcome)),
        Answer::SweepFamily(swept) => format!("sweep family: {}", sweep_family(swept)),
        Answer::ListUnsweptFamilies(families) => some("list unswept families", families.is_empty()),
        Answer::Entity(answer) => answer.label(),
        Answer::Refused => "refused".into(),
    }
}

fn claimed_posts(claimed: &ClaimedOutbox) -> &'static str {
    match (claimed.posts.is_empty(), claimed.next_due_at) {
        (false, None) => "some",
        (false, Some(_)) => "some, more later",
        (true, None) => "none",
        (true, Some(_)) => "none, some later",
    }
}

fn start(outcome: &StartOutcome) -> &'static str {
    match outcome {
        StartOutcome::Created(_) => "created",
        StartOutcome::Existing(_) => "existing",
        StartOutcome::Spent { .. } => "spent",
        StartOutcome::KeyConflict { .. } => "key conflict",
        StartOutcome::SubjectBusy { .. } => "subject busy",
    }
}

fn advance(outcome: &CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed { opened, .. } if !opened.is_empty() => match opened[0].state {
            PromiseState::Settled { .. } => "advanced, promise settled",
            PromiseState::KeyTaken { .. } => "advanced, promise without its key",
            PromiseState::Pending | PromiseState::TimedOut => "advanced, promise known",
        },
        CommitOutcome::Committed { woken, .. } if woken.is_empty() => "advanced",
        CommitOutcome::Committed { .. } => "advanced, others woken",
        CommitOutcome::Stale(_) => "stale",
        CommitOutcome::ChildrenRefused(ChildrenRefused::TooMany { .. }) => "too many descendants",
        CommitOutcome::ChildrenRefused(ChildrenRefused::Cancelled { .. }) => "family cancelled",
        CommitOutcome::LeaseLost => "lease lost",
    }
}

fn cancel_family(outcome: &CancelFamilyOutcome) -> &'static str {
    match outcome {
        CancelFamilyOutcome::Cancelled(_) => "cancelled",
        CancelFamilyOutcome::NotRoot(_) => "not a root",
        CancelFamilyOutcome::Stale(_) => "stale",
        CancelFamilyOutcome::NoSuchRun => "no such run",
    }
}

fn sweep_family(swept: &SweepFamilyOutcome) -> &'static str {
    match (swept.steered.is_empty(), swept.next) {
        (false, None) => "some",
        (false, Some(_)) => "some, more to do",
        (true, _) => "nobody",
    }
}

fn refused(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Ended(_) => "ended",
        Refusal::AlreadyRequested => "already asked",
        Refusal::NotPaused(_) => "not paused",
        Refusal::NotFailed(_) => "not failed",
        Refusal::NoSuchStep(_) => "no such step",
        Refusal::Undone => "undone",
        Refusal::InDoubt(_) => "in doubt",
        Refusal::WouldRepeat(_) => "would repeat effects",
        Refusal::KeyTaken(_) => "key taken",
        Refusal::SubjectBusy(_) => "subject busy",
        Refusal::Stale(_) => "stale",
    }
}

fn signal(outcome: &SignalOutcome) -> &'static str {
    match outcome {
        SignalOutcome::Stored { granted: None, .. } => "stored",
        SignalOutcome::Stored { granted: Some(_), .. } => "stored, granted",
        SignalOutcome::Duplicate => "duplicate",
        SignalOutcome::Ended(_) => "ended",
        SignalOutcome::TooMany => "too many",
        SignalOutcome::NoSuchRun => "no such run",
    }
}

fn settle(outcome: &SettleOutcome) -> &'static str {
    match outcome {
        SettleOutcome::Settled { granted: None, waiters, .. } if !waiters.is_empty() => {
            "settled, others woken"
        }
        SettleOutcome::Settled { granted: None, .. } => "settled",
        SettleOutcome::Settled { granted: Some(_), .. } => "settled, granted",
        SettleOutcome::AlreadySettled { same: true, .. } => "already settled, same",
        SettleOutcome::AlreadySettled { same: false, .. } => "already settled, other",
        SettleOutcome::TimedOut { .. } => "timed out",
        SettleOutcome::KeptEarly { .. } => "kept",
        SettleOutcome::AlreadyKept { same: true, .. } => "already kept, same",
        SettleOutcome::AlreadyKept { same: false, .. } => "already kept, other",
        SettleOutcome::NoSuchPromise => "no such promise",
    }
}

fn purge(purged: PurgeOutcome) -> &'static str {
    match purged {
        PurgeOutcome { next: Some(_), .. } => "more to do",
        PurgeOutcome { runs: 1.., .. } => "runs",
        PurgeOutcome { early: 1.., .. } => "early settlements",
        PurgeOutcome { keys: 1.., .. } => "keys",
        PurgeOutcome { .. } => "nothing",
    }
}
