//! State shared by all parts of one simulation: the store, the random numbers, the trace, and the first failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{OwnerId, RunId, Timestamp};
use hapax_engine::store::Store;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::families::Families;
use super::network_faults::{FaultRates, RequestFate};
use super::node::Node;
use super::provider::Provider;
use super::requests::Requests;
use super::rule::Rule;
use super::tally::SimulationCounts;
use super::trace::{Digest, Trace};
use super::watch::Watch;

/// Noon of an arbitrary day: 2026-01-01.
pub const NOON: Timestamp = Timestamp::from_millis(1_767_268_800_000);

/// More requests at one instant than any real work needs, so a loop is spinning.
const MOST_AT_ONCE: u32 = 5_000;

pub struct World {
    pub store: MemoryStore,
    pub settings: Settings,
    pub provider: Provider,
    pub tally: Mutex<SimulationCounts>,
    started: Instant,
    weather: Mutex<FaultRates>,
    storm: FaultRates,
    is_calm: AtomicBool,
    dice: Mutex<Rng>,
    trace: Mutex<Trace>,
    watch: Mutex<Watch>,
    pace: Mutex<(u128, u32)>,
    broken: Mutex<Option<String>>,
    rules: Vec<Rule>,
    alarm: Notify,
}

/// Parameters that the seed decides before the simulation starts.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub nodes: usize,
    pub jobs: usize,
    pub lease_for: Duration,
    pub poll_every: Duration,
    pub max_active: usize,
    pub max_resident: usize,
    pub mark_after: Duration,
    /// Duration of the faults.
    pub storm: Duration,
    /// Longest pause between two faults of nodes.
    pub blow_every: Duration,
    pub clocks_are_wrong: bool,
    /// A process stops at one in this many places where it can; 0 means never.
    pub pause_one_in: u32,
    pub families: FamilyLimits,
}

/// The limits on families that all nodes keep to. Most seeds never meet them.
#[derive(Debug, Clone, Copy)]
pub struct FamilyLimits {
    pub descendants: u64,
    pub depth: u32,
    pub children_per_second: u32,
}

impl FamilyLimits {
    fn draw(dice: &mut Rng) -> Self {
        FamilyLimits {
            descendants: *dice.choice(&[1, 2, 4, 1_000, 1_000, 1_000]).expect("not empty"),
            depth: *dice.choice(&[1, 32, 32, 32]).expect("not empty"),
            children_per_second: *dice.choice(&[1, 1_000, 1_000, 1_000]).expect("not empty"),
        }
    }
}

impl Settings {
    fn draw(dice: &mut Rng) -> Self {
        let lease_ms = dice.u64(1_000..=4_000);
        Settings {
            nodes: dice.usize(2..=4),
            jobs: dice.usize(4..=12),
            lease_for: Duration::from_millis(lease_ms),
            poll_every: Duration::from_millis(dice.u64(100..=600)),
            max_active: *dice.choice(&[2, 4, 1_000, 1_000]).expect("not empty"),
            max_resident: *dice.choice(&[0, 2, 1_000, 1_000]).expect("not empty"),
            mark_after: Duration::from_millis(*dice.choice(&[10, 100, 1_000]).expect("not empty")),
            storm: Duration::from_millis(dice.u64(4_000..=20_000)),
            blow_every: Duration::from_millis(dice.u64(500..=5_000)),
            clocks_are_wrong: dice.u32(0..3) == 0,
            pause_one_in: *dice.choice(&[0, 15, 60]).expect("not empty"),
            families: FamilyLimits::draw(dice),
        }
    }

    /// Time after the storm within which everything must end (invariant 64).
    pub fn patience(&self) -> Duration {
        (self.lease_for + self.poll_every) * 30
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut dice = Rng::with_seed(seed);
        let settings = Settings::draw(&mut dice);
        let weather = FaultRates::draw(&mut dice, settings.lease_for);
        let mut watch = Watch::default();
        watch.families.keep_to(settings.families);
        World {
            store: MemoryStore::new(Arc::new(SystemClock::following_tokio(NOON))),
            settings,
            provider: Provider::default(),
            tally: Mutex::default(),
            started: Instant::now(),
            weather: Mutex::new(weather),
            storm: weather,
            is_calm: AtomicBool::new(false),
            dice: Mutex::new(dice),
            trace: Mutex::new(Trace::new()),
            watch: Mutex::new(watch),
            pace: Mutex::default(),
            broken: Mutex::default(),
            rules: Rule::in_force(),
            alarm: Notify::new(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn roll<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.dice.lock().unwrap())
    }

    /// A random span from zero to `most`.
    pub fn span(&self, most: Duration) -> Duration {
        Duration::from_millis(self.roll(|dice| dice.u64(0..=most.as_millis() as u64)))
    }

    pub fn chance(&self, one_in: u32) -> bool {
        self.roll(|dice| dice.u32(0..one_in) == 0)
    }

    pub fn log(&self, who: &str, what: &str) {
        self.trace.lock().unwrap().add(self.started.elapsed().as_millis(), who, what);
    }

    pub fn name(&self, run: RunId) -> String {
        self.trace.lock().unwrap().name(run)
    }

    pub fn digest(&self) -> Digest {
        self.trace.lock().unwrap().digest()
    }

    pub fn last_lines(&self) -> String {
        self.trace.lock().unwrap().last_lines()
    }

    pub fn last_lines_of(&self, run: RunId) -> String {
        let mut trace = self.trace.lock().unwrap();
        let name = trace.name(run);
        trace.last_lines_of(&name)
    }

    pub fn count(&self, count: impl FnOnce(&mut SimulationCounts)) {
        count(&mut self.tally.lock().unwrap());
    }

    pub fn journey(&self, writes: bool, may_echo: bool) -> RequestFate {
        let weather = *self.weather.lock().unwrap();
        self.roll(|dice| weather.journey(dice, writes, may_echo))
    }

    pub fn calm_down(&self) {
        *self.weather.lock().unwrap() = FaultRates::calm();
        self.is_calm.store(true, Ordering::Relaxed);
    }

    /// Injects the earlier faults again.
    pub fn storm_again(&self) {
        *self.weather.lock().unwrap() = self.storm;
        self.is_calm.store(false, Ordering::Relaxed);
    }

    /// Returns true once the storm is over.
    pub fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Checks all invariants after a write to the store.
    pub fn look(&self) {
        let expect = |rule, what| self.expect(rule, || what);
        let looked = self.watch.lock().unwrap().look(&self.store, &self.provider, expect);
        if let Err(broken) = looked {
            self.break_off(broken);
        }
    }

    /// Ends the leases of a node that is dead.
    pub fn end_leases(&self, who: &str, owner: OwnerId) {
        let ended = self.store.end_leases(owner);
        self.watch.lock().unwrap().end_leases(owner, self.store.now());
        self.log(who, &format!("is known to be dead: {ended} leases end"));
        self.count(|tally| tally.leases_given_back += ended as u64);
        self.look();
    }

    pub fn with_watch<T>(&self, read: impl FnOnce(&Watch) -> T) -> T {
        read(&self.watch.lock().unwrap())
    }

    pub fn with_requests<T>(&self, change: impl FnOnce(&mut Requests) -> T) -> T {
        change(&mut self.watch.lock().unwrap().requests)
    }

    pub fn with_families<T>(&self, change: impl FnOnce(&mut Families) -> T) -> T {
        change(&mut self.watch.lock().unwrap().families)
    }

    /// Notes that a request was sent. Time must advance between requests.
    pub fn pace(&self) {
        let now = self.started.elapsed().as_millis();
        let mut pace = self.pace.lock().unwrap();
        *pace = if pace.0 == now { (now, pace.1 + 1) } else { (now, 1) };
        if pace.1 > MOST_AT_ONCE {
            drop(pace);
            self.break_off("requests follow each other without end at one instant".into());
        }
    }

    /// Reports a broken rule, if the rule is in force.
    pub fn expect(&self, rule: Rule, what: impl FnOnce() -> String) {
        if self.rules.contains(&rule) {
            self.break_off(format!("{rule:?}: {}", what()));
        }
    }

    /// Marks a place where a process can stop. Sometimes the whole node stops here, often for longer than its lease.
    pub async fn may_pause(&self, node: &Arc<Node>) {
        let one_in = self.settings.pause_one_in;
        if one_in > 0 && !self.is_calm() && self.chance(one_in) {
            let span = self.span(self.settings.lease_for * 5);
            self.log(&node.name, &format!("is stopped for {span:?}"));
            self.count(|tally| tally.stopped += 1);
            node.freeze(true);
            let node = node.clone();
            tokio::spawn(async move {
                tokio::time::sleep(span).await;
                node.freeze(false);
            });
        }
        node.thawed().await;
    }

    /// Reports a broken invariant: the first one counts, and the simulation ends.
    pub fn break_off(&self, what: String) {
        self.log("!!", &what);
        self.broken.lock().unwrap().get_or_insert(what);
        self.alarm.notify_waiters();
    }

    pub fn broken(&self) -> Option<String> {
        self.broken.lock().unwrap().clone()
    }

    /// Returns when an invariant is broken.
    pub async fn alarm(&self) -> String {
        loop {
            let alarm = self.alarm.notified();
            if let Some(broken) = self.broken() {
                return broken;
            }
            alarm.await;
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("settings", &self.settings).finish()
    }
}
