//! External people and providers. They settle promises, send signals and command runs, often twice and not always
//! sensibly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::model::{
    Actor, DoubtRef, EffectKey, Failure, IdempotencyKey, Payload, PromiseRef, PromiseState, Refusal,
    RepeatPermission, Resolution, Role, Ruling, RunHead, RunId, RunStatus, SettleRequest, Settlement,
    StepKind, StepRecord, StepStatus, WorkspaceId,
};
use hapax_engine::runtime::{CreatePromiseOutcome, NewPromise, SettlePromiseOutcome};
use hapax_engine::store::{CancelFamily, FamilyStore, Store};
use hapax_engine::{Engine, Error};
use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::program::shared_key;
use super::provider::ProviderRecord;
use super::rule::Rule;
use super::watch::{at_once, every_run};
use super::world::World;

#[derive(Clone)]
pub struct ExternalCallers {
    world: Arc<World>,
    fleet: Arc<Fleet>,
    known: Arc<Mutex<KnownAnswers>>,
}

/// Answers that people outside received.
#[derive(Default)]
struct KnownAnswers {
    /// Confirmed value of each settled promise.
    promises: BTreeMap<String, u32>,
    /// The next signal of each run, and whether one is in flight.
    signals: BTreeMap<RunId, u64>,
    under_way: BTreeSet<RunId>,
    is_storm_over: bool,
}

impl ExternalCallers {
    pub fn new(world: Arc<World>, fleet: Arc<Fleet>) -> Self {
        ExternalCallers { world, fleet, known: Arc::default() }
    }

    /// Tells people to do nothing but help runs to their end.
    pub fn storm_is_over(&self) {
        self.known.lock().unwrap().is_storm_over = true;
    }

    /// Acts on one run after another until the simulation ends.
    pub async fn act(self) {
        loop {
            sleep(self.world.span(Duration::from_millis(150))).await;
            let open: Vec<RunHead> = every_run(&self.world.store).into_iter().map(|view| view.head).collect();
            if open.is_empty() {
                continue;
            }
            let any = self.world.roll(|dice| dice.usize(0..open.len()));
            let head = open[any].clone();
            match self.world.roll(|dice| dice.u32(0..9)) {
                0..=1 => self.settle_one(&head),
                2 => self.rule_one(&head),
                8 => self.make_one(),
                3..=5 => self.signal_one(&head),
                _ => self.steer_one(&head),
            }
            if self.known.lock().unwrap().is_storm_over {
                open.iter().filter(|head| !head.status().is_closed()).for_each(|head| self.help(head));
            }
        }
    }

    /// Rules on an effect in doubt with the provider's facts. Sometimes a person abandons it early.
    fn rule_one(&self, head: &RunHead) {
        let log = at_once(self.world.store.find_log(&WorkspaceId::default(), head.id()));
        let Some(log) = log else { return };
        for step in log.steps.iter().filter(|step| step.state.status() == StepStatus::InDoubt) {
            let key = EffectKey::new(head.id(), log.head.generation, &step.id);
            let is_impatient = !self.known.lock().unwrap().is_storm_over && self.world.chance(8);
            // Some steps cannot succeed in the time they have.
            let gives_up = is_impatient || step.attempts > 10;
            let resolution = match self.world.provider.truth(key.as_str()) {
                _ if gives_up => Resolution::Abandon,
                ProviderRecord::Happened(output) => Resolution::Happened { output },
                ProviderRecord::DidNotHappen => Resolution::DidNotHappen,
                ProviderRecord::Open => continue,
            };
            if resolution == Resolution::DidNotHappen {
                self.world.provider.deny(key.as_str());
            }
            let by = Actor::new("ada", Role::Manager);
            let ruling = Ruling { resolution, by, seconded_by: None, reason: "so it is".into() };
            let seen = DoubtRef { run: head.id(), step: step.id.clone(), seen: step.changed_version };
            self.call(move |outside, engine| async move {
                match engine.resolve_doubt(&seen, ruling).await {
                    Ok(()) => outside.world.count(|tally| tally.doubts_resolved += 1),
                    Err(
                        Error::Store(_)
                        | Error::NoSuchRun(_)
                        | Error::NoSuchDoubt { .. }
                        | Error::RulingNotPossible { .. }
                        | Error::DoubtResolved { .. },
                    ) => {}
                    Err(error) => outside.world.break_off(format!("resolving {seen:?}: {error}")),
                }
            });
        }
    }

    /// Delivers everything that an open run waits for from people.
    fn help(&self, head: &RunHead) {
        self.rule_one(head);
        self.settle_one(head);
        self.signal_one(head);
        if head.status() == RunStatus::Paused {
            self.steer(head.id(), "resume");
        }
    }

    /// Calls a node. Now and then a person loses patience and drops the call at an arbitrary point.
    fn call<F, Fut>(&self, call: F)
    where
        F: FnOnce(Self, Engine) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let Some(member) = self.fleet.any() else { return };
        let impatience = self.world.span(self.world.settings.lease_for * 3);
        let this = self.clone();
        tokio::spawn(async move {
            let _ = timeout(impatience, call(this, member.engine)).await;
        });
    }

    fn settle_one(&self, head: &RunHead) {
        let log = at_once(self.world.store.find_log(&WorkspaceId::default(), head.id()));
        let promises = log.map(|log| log.promises).unwrap_or_default();
        let storm = !self.known.lock().unwrap().is_storm_over;
        for promise in promises.into_iter().filter(|promise| !promise.id.is_doubt_promise()) {
            let is_pending = promise.state == PromiseState::Pending;
            // Sometimes settle a promise a second time.
            if (is_pending && (!storm || self.world.chance(2)))
                || (!is_pending && storm && self.world.chance(10))
            {
                let value = self.world.roll(|dice| dice.u32(0..3));
                let by = match promise.key.filter(|_| self.world.chance(2)) {
                    Some(key) => PromiseRef::Key(key.key),
                    None => PromiseRef::Id(promise.id),
                };
                self.call(move |outside, engine| async move { outside.settle(&engine, by, value).await });
            }
        }
        if storm && self.world.chance(12) {
            // Before any run waits for it.
            let (n, value) = self.world.roll(|dice| (dice.u8(1..=3), dice.u32(0..3)));
            let by = PromiseRef::Key(IdempotencyKey::new(&shared_key(n)).unwrap());
            self.call(move |outside, engine| async move { outside.settle(&engine, by, value).await });
        }
    }

    /// Creates or finds a standalone promise, and settles it.
    fn make_one(&self) {
        if self.known.lock().unwrap().is_storm_over {
            return;
        }
        let (n, value) = self.world.roll(|dice| (dice.u8(1..=3), dice.u32(0..3)));
        self.call(move |outside, engine| async move {
            let (id, key) = (format!("alone-{n}"), format!("alone-key-{n}"));
            let new = NewPromise { id: Some(id), key: Some(key), ..NewPromise::default() };
            match engine.create_promise(new).await {
                Ok(CreatePromiseOutcome::Created(promise) | CreatePromiseOutcome::Exists(promise)) => {
                    outside.settle(&engine, PromiseRef::Id(promise.id), value).await;
                }
                Err(Error::Store(_)) => {}
                Err(error) => outside.world.break_off(format!("making a promise: {error}")),
            }
        });
    }

    /// Value 0 is a rejection.
    async fn settle(&self, engine: &Engine, by: PromiseRef, value: u32) {
        let settlement = match value {
            0 => Settlement::Rejected(Failure::permanent("no").with_code("planned")),
            _ => Settlement::Resolved(Payload::of(&value).unwrap()),
        };
        let (id, confirmed) = match (engine.settle(by.clone(), SettleRequest::new(settlement)).await, &by) {
            (Ok(SettlePromiseOutcome::Settled(promise)), _) => {
                self.world.count(|tally| tally.promises_settled += 1);
                (promise.id, true)
            }
            (Ok(SettlePromiseOutcome::AlreadySettled(promise)), _) => {
                self.world.count(|tally| tally.settlements_repeated += 1);
                (promise.id, true)
            }
            (Ok(SettlePromiseOutcome::KeptEarly { .. }), _) => {
                self.world.count(|tally| tally.settlements_early += 1);
                return;
            }
            (Err(Error::AlreadySettled), by) => {
                self.world.count(|tally| tally.settlements_refused += 1);
                match by {
                    PromiseRef::Id(id) => (id.clone(), false),
                    PromiseRef::Key(_) => return,
                }
            }
            // Promises of an earlier generation are gone.
            (Err(Error::Store(_) | Error::PromiseTimedOut | Error::NoSuchPromise(_)), _) => return,
            (Err(error), by) => return self.world.break_off(format!("settling {by}: {error}")),
        };
        let id = id.as_str();
        let mut known = self.known.lock().unwrap();
        let holds = known.promises.get(id).copied();
        // Invariants 39 and 40.
        if holds.is_some_and(|holds| (holds == value) != confirmed) {
            self.world.break_off(format!("promise {id} held {holds:?}; settling with {value}: {confirmed}"));
        }
        if confirmed {
            known.promises.insert(id.to_string(), value);
        }
    }

    /// Sends numbered signals. The next one is sent once the one before is confirmed, so they must be delivered in that
    /// order.
    fn signal_one(&self, head: &RunHead) {
        let run = head.id();
        let log = at_once(self.world.store.find_log(&WorkspaceId::default(), run));
        let waits = log.is_some_and(|log| {
            let waits = |step: &StepRecord| {
                step.kind == StepKind::Signal && step.state.status() == StepStatus::Waiting
            };
            log.steps.iter().any(waits) && log.signals.is_empty()
        });
        // Send some signals before a run waits for them, and more than it waits for. Do not do so when nothing else can
        // wake a run that missed one.
        let is_calm = self.known.lock().unwrap().is_storm_over;
        if !waits && (is_calm || head.status().is_closed() || !self.world.chance(6)) {
            return;
        }
        if !self.known.lock().unwrap().under_way.insert(run) {
            return;
        }
        let next = self.known.lock().unwrap().signals.get(&run).copied().unwrap_or(0);
        let this = self.clone();
        tokio::spawn(async move {
            let next = match next > 0 && this.world.chance(4) {
                true => this.world.roll(|dice| dice.u64(0..next)),
                false => next,
            };
            if let Some(member) = this.fleet.any() {
                let patience = this.world.span(this.world.settings.lease_for * 3);
                let _ = timeout(patience, this.signal(&member.engine, run, next)).await;
            }
            this.known.lock().unwrap().under_way.remove(&run);
        });
    }

    async fn signal(&self, engine: &Engine, run: RunId, number: u64) {
        let sent = engine.signal(run, "signal", &number, Some(&format!("signal-{number}"))).await;
        let mut known = self.known.lock().unwrap();
        let next = known.signals.entry(run).or_default();
        match sent {
            Ok(true) if number < *next => {
                self.world.break_off(format!("signal {number} of {run} was taken twice"));
            }
            Ok(true) => *next = number + 1,
            Ok(false) => {
                self.world.count(|tally| tally.signals_repeated += 1);
                *next = (*next).max(number + 1);
            }
            Err(Error::Store(_) | Error::RunEnded { .. } | Error::NoSuchRun(_)) => {}
            Err(error) => self.world.break_off(format!("signalling {run}: {error}")),
        }
    }

    fn steer_one(&self, head: &RunHead) {
        if self.known.lock().unwrap().is_storm_over {
            return;
        }
        let wish = match head.status() {
            RunStatus::Failed if self.may_be_retried(head) => "retry",
            RunStatus::Failed => return,
            RunStatus::Paused => "resume",
            RunStatus::Completed | RunStatus::Cancelled if self.world.chance(4) => "cancel family",
            RunStatus::Completed | RunStatus::Cancelled => "cancel",
            RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => {
                match self.world.roll(|dice| dice.u32(0..8)) {
                    0..=3 => "pause",
                    4 => "cancel",
                    5 => "resume",
                    6 if self.world.chance(2) => "cancel family",
                    _ => return,
                }
            }
        };
        match wish {
            "cancel family" if self.world.chance(2) => self.mark_family(head.id()),
            "retry" if !self.world.chance(3) => {}
            _ => self.steer(head.id(), wish),
        }
    }

    /// A node cancels a family and dies before it has asked any member. Others must find the mark.
    fn mark_family(&self, root: RunId) {
        let Some(member) = self.fleet.any() else { return };
        let impatience = self.world.span(self.world.settings.lease_for * 3);
        let request = CancelFamily {
            workspace: WorkspaceId::default(),
            root,
            reason: "people said so of all".into(),
            expected: None,
            note: None,
        };
        tokio::spawn(async move { timeout(impatience, member.store.cancel_family(request)).await });
    }

    /// Notes that people received confirmation that the run continues.
    fn goes_on(&self, run: RunId, pauses: u64) {
        let Some(view) = at_once(self.world.store.find_run(&WorkspaceId::default(), run)) else { return };
        let lost = self.world.with_requests(|requests| {
            requests.note_resumed(run, pauses);
            requests.lost_resume(&view.head)
        });
        if let Some(lost) = lost {
            self.world.expect(Rule::RequestsTakeEffect, || format!("{run}: {lost}"));
        }
    }

    fn some_step(&self, run: RunId) -> Option<String> {
        let log = at_once(self.world.store.find_log(&WorkspaceId::default(), run))?;
        let any = self.world.roll(|dice| dice.usize(0..log.steps.len().max(1)));
        log.steps.get(any).map(|step| step.id.to_string())
    }

    /// Returns true if a retry without a step applies: the last thing that changed in the run is a failed step.
    fn may_be_retried(&self, head: &RunHead) -> bool {
        let log = at_once(self.world.store.find_log(&WorkspaceId::default(), head.id()));
        let steps = log.map(|log| log.steps).unwrap_or_default();
        let mut failed = steps.iter().filter(|step| step.state.status() == StepStatus::Failed).peekable();
        let is_last =
            |step: &StepRecord| !steps.iter().any(|other| other.started_version > step.changed_version);
        failed.peek().is_none() || failed.any(is_last)
    }

    /// Sometimes a manager allows effects that have happened to happen again.
    async fn retry(&self, engine: &Engine, run: RunId, from: Option<&str>) -> Result<RunHead, Error> {
        let refused = match engine.retry(run, from).await {
            Err(Error::Refused { refusal: Refusal::WouldRepeat(effects), .. }) => effects,
            other => return other,
        };
        let plan = engine.plan_retry(run, from).await?;
        if plan.repeats() != refused {
            // The run changed in between; read it again before retrying.
            return engine.retry(run, from).await;
        }
        self.world.count(|tally| tally.repeats_refused += 1);
        if self.world.chance(2) {
            return engine.retry(run, from).await;
        }
        let repeat = RepeatPermission {
            effects: refused,
            by: Actor::new("ada", Role::Manager),
            seconded_by: None,
            reason: "it got lost in the post".into(),
        };
        engine.retry_repeating(run, from, repeat).await
    }

    fn steer(&self, run: RunId, wish: &'static str) {
        let from = (wish == "retry" && self.world.chance(3)).then(|| self.some_step(run)).flatten();
        self.call(move |outside, engine| async move {
            let pauses = outside.world.with_requests(|requests| requests.pauses(run));
            let steered = match wish {
                "pause" => engine.pause(run).await,
                "resume" => engine.resume(run).await,
                "cancel" => engine.cancel(run, "people said so").await,
                "cancel family" => engine.cancel_family(run, "people said so of all").await,
                _ => outside.retry(&engine, run, from.as_deref()).await,
            };
            match steered {
                Ok(head) => {
                    if wish == "retry" {
                        outside.world.with_requests(|requests| requests.note_retried(&head, from.as_deref()));
                    }
                    outside.world.count(|tally| match wish {
                        "pause" => tally.pauses += 1,
                        "cancel" => tally.cancellations += 1,
                        "cancel family" => tally.families_cancelled += 1,
                        "retry" => tally.reopened += 1,
                        _ => {}
                    });
                    if wish == "resume" {
                        outside.goes_on(run, pauses);
                    }
                }
                // A very late caller finds the run already purged.
                Err(Error::Store(_) | Error::Refused { .. } | Error::NoSuchRun(_)) => {}
                // Only the root of a family stands for it.
                Err(Error::NotRoot { .. }) if wish == "cancel family" => {}
                Err(error) => outside.world.break_off(format!("{wish} {run}: {error}")),
            }
        });
    }
}
