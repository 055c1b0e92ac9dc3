//! The plan of a storm, drawn from the seed before anything starts, so that the same seed gives the same storm.

use std::time::Duration;

use fastrand::Rng;

use crate::limits::{CLAIM_STALE_AFTER, LEASE, MAX_WORK, WORK_PER_SECOND};

/// The whole storm.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How long it blows.
    pub length: Duration,
    /// Faults of each node, in order; each begins when the one before is over.
    pub nodes: Vec<Vec<Timed<NodeFault>>>,
    /// Faults between each node and the database.
    pub database_links: Vec<Vec<Timed<LinkFault>>>,
    /// Faults between the nodes and the provider.
    pub provider_link: Vec<Timed<LinkFault>>,
    /// Faults of the database itself.
    pub database: Vec<Timed<DatabaseFault>>,
    /// Client work, by start time.
    pub work: Vec<Timed<WorkItem>>,
}

/// Something with the time at which it begins, counted from the start of the storm.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed<T> {
    pub at: Duration,
    pub what: T,
}

/// Fault of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeFault {
    /// SIGKILL; started again after `down`.
    Kill { down: Duration },
    /// SIGSTOP for `span`, then SIGCONT.
    Pause { span: Duration },
    /// As `Pause`, in the middle of much work: for `slow` before it, each answer of the database takes `lag`, or connecting to the provider
    /// takes until the node is stopped. It wakes with commits acknowledged and connections made that it has not heard of.
    BusyPause { lag: Option<Duration>, slow: Duration, span: Duration },
    /// SIGTERM; started again once it has ended.
    Restart,
}

/// Fault of connections.
#[derive(Debug, Clone, PartialEq)]
pub enum LinkFault {
    /// All open connections are reset.
    Cut,
    /// Nobody listens, and open connections are reset.
    Refuse { span: Duration },
    /// No byte passes; then they go on.
    Stall { span: Duration },
    /// Requests pass, replies are thrown away; then the connections are reset.
    LoseReplies { span: Duration },
    /// Nothing passes and nothing is closed; then the connections are reset.
    HalfOpen { span: Duration },
}

/// Fault of the database server.
#[derive(Debug, Clone, PartialEq)]
pub enum DatabaseFault {
    /// An orderly restart.
    Restart,
    /// A kill; it recovers from its log.
    Crash { down: Duration },
    /// All of its processes stand still.
    Freeze { span: Duration },
}

/// One piece of work of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkItem {
    /// The business operation: sent to the provider, and the base of all keys.
    pub op: String,
    pub kind: WorkKind,
    /// The node it is first sent to.
    pub node: usize,
    /// Whether the start also has a request key. Its response must be replayed byte for byte.
    pub has_request_key: bool,
    pub steering: PlannedCommand,
}

/// Kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// An idempotent charge, then packing.
    Pay,
    /// A charge, a promise that is settled from outside, then a claimed shipment with a probe.
    Order { settled_by: SettledBy },
    /// A claimed wire without a probe, then a confirmation.
    Wire,
    /// A claimed fax with a probe, then a confirmation.
    Fax,
    /// A charge, then a booking that is declined: the charge must be undone.
    Declined,
    /// A check that is declined once; people retry the run.
    Flaky,
    /// A note, then a check that is declined once; people retry the run from the note on.
    Redo,
    /// A claimed stamp, then a check that is declined once; one careless person retries the run
    /// from the stamp on, then people retry the failed step.
    Stamped,
    /// A signed webhook that starts a wire.
    Hook,
    /// A business object that two people pay at the same time, and close.
    Invoice,
    /// The document of business objects is replaced, and the next object is paid at once on other nodes.
    Replace,
}

impl WorkKind {
    /// Returns whether it is about a business object, without a run.
    pub fn is_of_object(self) -> bool {
        matches!(self, WorkKind::Invoice | WorkKind::Replace)
    }

    /// Returns whether the provider declines it once, so that people retry it.
    pub fn is_retried(self) -> bool {
        matches!(self, WorkKind::Flaky | WorkKind::Redo | WorkKind::Stamped)
    }
}

/// Settler of an order's promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettledBy {
    /// A client over the API.
    Client,
    /// A signed webhook, sent three times.
    Webhook,
    /// Two clients with different values.
    Rivals,
}

/// Command of people for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedCommand {
    Nothing,
    Cancel {
        after: Duration,
    },
    PauseAndResume {
        after: Duration,
        resumed_after: Duration,
    },
    /// Paused, and cancelled while it is.
    PauseAndCancel {
        after: Duration,
        cancelled_after: Duration,
    },
}

/// Claimed effects begun on a node just before it is paused with commits under way.
const BURST: usize = 6;
/// The same for the first `MAX_CROWDS` such pauses: enough that some are claimed and wait for a processor when the node is stopped.
const CROWD: usize = 40;
const MAX_CROWDS: usize = 4;

/// How many of each there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub kills: usize,
    pub pauses: usize,
    pub restarts: usize,
    pub link_faults: usize,
    pub database_faults: usize,
}

/// Draws the plan of a seed.
pub fn draw(seed: u64, nodes: usize, length: Duration) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let node_faults: Vec<_> = (0..nodes).map(|_| draw_node(&mut rng, length)).collect();
    let database_links = (0..nodes).map(|_| draw_link(&mut rng, length, 9.0, 4_500)).collect();
    let provider_link = draw_link(&mut rng, length, 6.0, 4_000);
    let database = draw_database(&mut rng, length);
    let work = draw_work(&mut rng, seed, length, &node_faults);
    Plan { length, nodes: node_faults, database_links, provider_link, database, work }
}

impl Plan {
    pub fn counts(&self) -> Counts {
        let faults = || self.nodes.iter().flatten().map(|timed| &timed.what);
        let is_pause =
            |fault: &&NodeFault| matches!(fault, NodeFault::Pause { .. } | NodeFault::BusyPause { .. });
        Counts {
            kills: faults().filter(|fault| matches!(fault, NodeFault::Kill { .. })).count(),
            pauses: faults().filter(is_pause).count(),
            restarts: faults().filter(|fault| **fault == NodeFault::Restart).count(),
            link_faults: self.database_links.iter().map(Vec::len).sum::<usize>() + self.provider_link.len(),
            database_faults: self.database.len(),
        }
    }
}

impl NodeFault {
    /// Least time it takes.
    fn span(&self) -> Duration {
        match self {
            NodeFault::Kill { down } => *down,
            NodeFault::Pause { span } => *span,
            NodeFault::BusyPause { slow, span, .. } => *slow + *span,
            NodeFault::Restart => Duration::from_secs(1),
        }
    }
}

impl DatabaseFault {
    /// Outcome.
    pub fn tell(&self) -> String {
        match self {
            DatabaseFault::Restart => "is restarted".to_owned(),
            DatabaseFault::Crash { down } => format!("is killed, for {down:?}"),
            DatabaseFault::Freeze { span } => format!("stands still for {span:?}"),
        }
    }
}

impl LinkFault {
    /// State of the connections.
    pub fn tell(&self) -> String {
        let span = self.span();
        match self {
            LinkFault::Cut => "all connections are reset".to_owned(),
            LinkFault::Refuse { .. } => format!("refuses connections for {span:?}"),
            LinkFault::Stall { .. } => format!("stalls for {span:?}"),
            LinkFault::LoseReplies { .. } => format!("loses replies for {span:?}"),
            LinkFault::HalfOpen { .. } => format!("is half open for {span:?}"),
        }
    }

    /// How long it lasts.
    pub fn span(&self) -> Duration {
        match self {
            LinkFault::Cut => Duration::ZERO,
            LinkFault::Refuse { span }
            | LinkFault::Stall { span }
            | LinkFault::LoseReplies { span }
            | LinkFault::HalfOpen { span } => *span,
        }
    }
}

/// A gap whose mean is `mean` seconds, never less than a third of it.
fn gap(rng: &mut Rng, mean: f64) -> Duration {
    Duration::from_secs_f64(mean * (0.34 + 1.32 * rng.f64()))
}

fn between(rng: &mut Rng, from_ms: u64, to_ms: u64) -> Duration {
    Duration::from_millis(rng.u64(from_ms..=to_ms))
}

fn draw_node(rng: &mut Rng, length: Duration) -> Vec<Timed<NodeFault>> {
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
    let mut faults = Vec::new();
    let mut at = gap(rng, 4.0);
    // The only pause where a janitor releases a claim while its holder still runs. Once, and
    // only in a long storm.
    let outlasts_claims = length > CLAIM_STALE_AFTER * 3 && rng.f64() < 0.5;
    while at < length {
        let what = match rng.u32(0..100) {
            0..28 => NodeFault::Kill { down: between(rng, 100, 2_500) },
            28..50 => NodeFault::Pause { span: between(rng, 200, lease_ms * 8 / 10) },
            50..66 => NodeFault::Pause { span: between(rng, lease_ms * 4 / 3, lease_ms * 3) },
            66..90 => {
                let span = between(rng, lease_ms * 5 / 3, lease_ms * 3);
                busy_pause(rng, span)
            }
            _ => NodeFault::Restart,
        };
        let what = if outlasts_claims && faults.len() == 4 {
            let span = CLAIM_STALE_AFTER + between(rng, 5_000, 15_000);
            busy_pause(rng, span)
        } else {
            what
        };
        let span = what.span();
        faults.push(Timed { at, what });
        at += span + gap(rng, 4.5);
    }
    faults
}

fn busy_pause(rng: &mut Rng, span: Duration) -> NodeFault {
    let lag = (rng.u32(0..3) == 0).then(|| between(rng, 100, 400));
    NodeFault::BusyPause { lag, slow: between(rng, 500, 1_300), span }
}

fn draw_link(rng: &mut Rng, length: Duration, mean: f64, longest_ms: u64) -> Vec<Timed<LinkFault>> {
    let mut faults = Vec::new();
    let mut at = gap(rng, mean);
    while at < length {
        let span = between(rng, 150, longest_ms);
        let what = match rng.u32(0..5) {
            0 => LinkFault::Cut,
            1 => LinkFault::Refuse { span },
            2 => LinkFault::Stall { span },
            3 => LinkFault::LoseReplies { span },
            _ => LinkFault::HalfOpen { span },
        };
        let span = what.span();
        faults.push(Timed { at, what });
        at += span + gap(rng, mean);
    }
    faults
}

fn draw_database(rng: &mut Rng, length: Duration) -> Vec<Timed<DatabaseFault>> {
    let mut faults = Vec::new();
    let mut at = gap(rng, 14.0);
    while at < length {
        let what = match rng.u32(0..3) {
            0 => DatabaseFault::Restart,
            1 => DatabaseFault::Crash { down: between(rng, 100, 2_000) },
            _ => DatabaseFault::Freeze { span: between(rng, 300, 5_000) },
        };
        faults.push(Timed { at, what });
        at += gap(rng, 22.0);
    }
    faults
}

fn draw_work(
    rng: &mut Rng,
    seed: u64,
    length: Duration,
    nodes: &[Vec<Timed<NodeFault>>],
) -> Vec<Timed<WorkItem>> {
    let mut work = Vec::new();
    let mut push = |rng: &mut Rng, at: Duration, kind: Option<WorkKind>, node: Option<usize>| {
        let kind = kind.unwrap_or_else(|| draw_kind(rng, at, length));
        let node = node.unwrap_or_else(|| rng.usize(0..nodes.len()));
        let steering = draw_steering(rng, kind);
        let has_request_key = rng.bool();
        let op = String::new();
        if at < length && work.len() < MAX_WORK {
            work.push(Timed { at, what: WorkItem { op, kind, node, has_request_key, steering } });
        }
    };
    let mut at = Duration::ZERO;
    while at < length {
        push(rng, at, None, None);
        at += gap(rng, 1.0 / WORK_PER_SECOND);
    }
    // A node that is paused while many claims are on their way to the database is the hardest case for effects: give it some.
    let mut crowds = 0;
    for (node, faults) in nodes.iter().enumerate() {
        for pause in faults {
            let NodeFault::BusyPause { slow, .. } = pause.what else { continue };
            let size = if crowds < MAX_CROWDS { CROWD } else { BURST };
            crowds += 1;
            let first = (pause.at + slow).saturating_sub(between(rng, 50, 400));
            for _ in 0..size {
                let at = first + between(rng, 0, 30);
                let kind = if rng.u32(0..3) == 0 { WorkKind::Wire } else { WorkKind::Fax };
                push(rng, at, Some(kind), Some(node));
            }
        }
    }
    work.sort_by_key(|timed| timed.at);
    for (number, timed) in work.iter_mut().enumerate() {
        timed.what.op = format!("op-{seed}-{number}");
    }
    work
}

fn draw_kind(rng: &mut Rng, at: Duration, length: Duration) -> WorkKind {
    // A claim whose holder was killed is looked at only after `CLAIM_STALE_AFTER`. So objects come first, and are settled with the rest.
    let is_early = at.as_secs_f64() < length.as_secs_f64() * 0.2 || length > CLAIM_STALE_AFTER * 3;
    if is_early && rng.f64() < 0.5 {
        return if rng.u32(0..5) == 0 { WorkKind::Replace } else { WorkKind::Invoice };
    }
    match rng.u32(0..100) {
        0..26 => WorkKind::Pay,
        26..43 => {
            let by = [SettledBy::Client, SettledBy::Webhook, SettledBy::Rivals][rng.usize(0..3)];
            WorkKind::Order { settled_by: by }
        }
        43..58 => WorkKind::Wire,
        58..73 => WorkKind::Fax,
        73..80 => WorkKind::Declined,
        80..84 => WorkKind::Flaky,
        84..88 => WorkKind::Redo,
        88..92 => WorkKind::Stamped,
        _ => WorkKind::Hook,
    }
}

fn draw_steering(rng: &mut Rng, kind: WorkKind) -> PlannedCommand {
    if kind.is_of_object() || kind.is_retried() {
        return PlannedCommand::Nothing;
    }
    match rng.u32(0..100) {
        0..30 => PlannedCommand::Cancel { after: between(rng, 20, 3_000) },
        30..45 => PlannedCommand::PauseAndResume {
            after: between(rng, 20, 1_500),
            resumed_after: between(rng, 20, 2_500),
        },
        45..50 => PlannedCommand::PauseAndCancel {
            after: between(rng, 20, 1_500),
            cancelled_after: between(rng, 20, 2_500),
        },
        _ => PlannedCommand::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(70);

    #[test]
    fn the_same_seed_draws_the_same_plan() {
        assert_eq!(draw(7, 3, LENGTH), draw(7, 3, LENGTH));
        assert_ne!(draw(7, 3, LENGTH), draw(8, 3, LENGTH));
    }

    #[test]
    fn two_minutes_hold_every_kind_of_fault() {
        for seed in 0..50 {
            let plan = draw(seed, 3, LENGTH);
            let counts = plan.counts();
            assert!(counts.kills > 0 && counts.pauses > 3, "seed {seed}: {counts:?}");
            assert!(counts.link_faults > 10 && counts.database_faults > 0, "seed {seed}: {counts:?}");
        }
    }

    #[test]
    fn every_piece_of_work_has_a_name_of_its_own() {
        let plan = draw(3, 3, LENGTH);
        let mut names: Vec<_> = plan.work.iter().map(|timed| &timed.what.op).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), plan.work.len());
    }

    #[test]
    fn objects_are_begun_early_enough_for_janitors_in_a_short_storm() {
        let plan = draw(3, 3, LENGTH);
        let late = plan.work.iter().filter(|timed| timed.at > LENGTH / 4);
        assert!(late.into_iter().all(|timed| !timed.what.kind.is_of_object()));
    }
}
