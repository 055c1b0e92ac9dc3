//! A crash at every point of a workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lab::Lab;
use super::partition::Partition;
use super::report::{CrashReport, EffectReport, ExpectEnd, Story};
use crate::ctx::Ctx;
use crate::model::{EffectClass, Failure, Payload, RunId, RunResult, RunStatus, StepStatus};
use crate::runtime::{Inner, Point, PointWatcher};
use crate::{Engine, EngineOptions, Error};

const NAME: &str = "workflow";
const DETERMINISM_VIOLATION: &str = "determinism_violation";

type Register = Arc<dyn Fn(&Engine) -> Result<(), Error> + Send + Sync>;
type Outside = Arc<dyn Fn(Engine, RunId) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Runs `workflow` once to find its points, then once for each with a crash there, and once for each where a worker that was taken
/// for dead comes back. Fails the test with the shortest story in which an effect happens twice or the run ends another way, and if the
/// run does not complete without a crash ([`CrashEverywhere::expect_failure`], [`CrashEverywhere::expect_waiting`]).
///
/// Effects are told apart by what their steps declare. One that is neither claimed nor transactional is taken to be safe to
/// run again if its code asks for its key ([`Attempt::idempotency_key`](crate::ctx::Attempt::idempotency_key)); one that may be
/// repeated without a key can be named by [`CrashEverywhere::repeatable`].
///
/// # Panics
/// If a crash could do harm.
pub async fn crash_everywhere<F, Fut, I, O, E>(workflow: F, input: &I) -> CrashReport
where
    F: Fn(Ctx, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: Serialize + DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    let report = CrashEverywhere::new(workflow, input).run().await;
    report.assert_safe();
    report
}

/// The same, with more to say.
pub struct CrashEverywhere {
    register: Register,
    also: Vec<Register>,
    input: Payload,
    outside: Option<Outside>,
    repeatable: BTreeSet<String>,
    expected: ExpectEnd,
}

/// Where a crash is to be: the `nth` time that this point is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    point: &'static str,
    step: Option<String>,
    nth: u32,
}

/// What is to happen there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The process dies.
    Crash,
    /// The process stops, another takes over, and then it goes on.
    Zombie,
}

/// What was seen in one life of the run.
#[derive(Debug, Default)]
struct Seen {
    places: Vec<Place>,
    counts: BTreeMap<(&'static str, Option<String>), u32>,
    entered: BTreeMap<String, u32>,
    keys_read: BTreeSet<String>,
    struck: bool,
    entered_before: u32,
}

/// How one life of the run ended.
struct Life {
    seen: Seen,
    end: RunStatus,
    steps: BTreeMap<String, (EffectClass, StepStatus)>,
    in_doubt: BTreeSet<String>,
    /// Why it failed, if it did.
    failure: Option<String>,
    /// How its code left its own history, if it did.
    violation: Option<String>,
    /// What it waits for, if it is open.
    waits_for: Vec<String>,
}

impl Life {
    /// What is known of the cause, for the end of a sentence.
    fn why(&self) -> String {
        match &self.failure {
            Some(failure) => format!(": {failure}"),
            None if self.waits_for.is_empty() => String::new(),
            None => format!(": it waits for {}", self.waits_for.join(", ")),
        }
    }
}

impl CrashEverywhere {
    /// Tries `workflow` with `input`.
    ///
    /// # Panics
    /// If the input is not one that could be stored.
    pub fn new<F, Fut, I, O, E>(workflow: F, input: &I) -> Self
    where
        F: Fn(Ctx, I) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: Serialize + DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        let input = Payload::of(input).expect("an input that can be stored");
        let register: Register = Arc::new(move |engine| engine.register(NAME, workflow.clone()));
        CrashEverywhere {
            register,
            also: Vec::new(),
            input,
            outside: None,
            repeatable: BTreeSet::new(),
            expected: ExpectEnd::default(),
        }
    }

    /// What else an engine needs, such as child workflows and targets.
    #[must_use]
    pub fn also(mut self, register: impl Fn(&Engine) -> Result<(), Error> + Send + Sync + 'static) -> Self {
        self.also.push(Arc::new(register));
        self
    }

    /// What the world does while the run is open, such as settling its promises; called anew after each crash.
    #[must_use]
    pub fn outside<F, Fut>(mut self, outside: F) -> Self
    where
        F: Fn(Engine, RunId) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.outside = Some(Arc::new(move |engine, run| Box::pin(outside(engine, run))));
        self
    }

    /// The effect of this step may be repeated as it is, without a key: setting a value, say.
    #[must_use]
    pub fn repeatable(mut self, step: &str) -> Self {
        self.repeatable.insert(step.to_string());
        self
    }

    /// The run is expected to fail, or to be cancelled.
    #[must_use]
    pub fn expect_failure(mut self) -> Self {
        self.expected = ExpectEnd::Failed;
        self
    }

    /// The run is expected to wait for something that the test does not give.
    #[must_use]
    pub fn expect_waiting(mut self) -> Self {
        self.expected = ExpectEnd::Waiting;
        self
    }

    /// Crashes it everywhere, and reports. A run that does not end as expected without a crash is the first story.
    pub async fn run(&self) -> CrashReport {
        let usual = self.live(None).await;
        let mut report = CrashReport { usual_end: Some(usual.end), ..CrashReport::default() };
        if !self.expected.is_met_by(usual.end) {
            report.stories.push(self.unexpected(&usual));
        }
        let mut lives = Vec::new();
        for place in usual.seen.places.clone() {
            let life = self.live(Some((&place, Fate::Crash))).await;
            if life.seen.struck {
                report.crashes += 1;
                lives.push((place.clone(), Fate::Crash, life));
            }
            let is_about_writing =
                matches!(place.point, "after_effect" | "before_record" | "before_completion");
            if is_about_writing {
                let life = self.live(Some((&place, Fate::Zombie))).await;
                if life.seen.struck {
                    report.zombies += 1;
                    lives.push((place, Fate::Zombie, life));
                }
            }
        }
        self.judge(&usual, &lives, &mut report);
        report.stories.sort_by_key(|story| story.length);
        report
    }

    fn judge(&self, usual: &Life, lives: &[(Place, Fate, Life)], report: &mut CrashReport) {
        let reads_key = |step: &str| {
            usual.seen.keys_read.contains(step)
                || lives.iter().any(|(.., life)| life.seen.keys_read.contains(step))
        };
        let mut order: Vec<String> = Vec::new();
        for place in &usual.seen.places {
            if let Some(step) = place.step.as_ref().filter(|step| !order.contains(step)) {
                order.push(step.clone());
            }
        }
        // What is entered only after a crash is judged as well: without one it is not entered at all.
        let strange = lives.iter().flat_map(|(.., life)| life.seen.entered.keys().cloned());
        let strange: BTreeSet<String> = strange.filter(|step| !order.contains(step)).collect();
        order.extend(strange);
        for step in order {
            let class =
                lives.iter().map(|(.., life)| life).chain([usual]).find_map(|life| life.steps.get(&step));
            let class = class.map_or(EffectClass::Idempotent, |(class, _)| *class);
            let count = |life: &Life| life.seen.entered.get(&step).copied().unwrap_or(0);
            let mut effect = EffectReport {
                usual: count(usual),
                most: lives.iter().map(|(.., life)| count(life)).chain([count(usual)]).max().unwrap_or(0),
                reads_key: reads_key(&step),
                can_happen_twice: false,
                can_be_in_doubt: lives.iter().any(|(.., life)| life.in_doubt.contains(&step)),
                can_be_left_undone: false,
                class,
                name: step.clone(),
            };
            let may_repeat =
                class == EffectClass::Idempotent && (effect.reads_key || self.repeatable.contains(&step));
            for (place, fate, life) in lives {
                let again = count(life) > effect.usual;
                if again && !may_repeat {
                    effect.can_happen_twice = true;
                    report.stories.push(story(place, *fate, life, twice(&step, class)));
                }
                let was_done =
                    usual.steps.get(&step).is_some_and(|(_, status)| *status == StepStatus::Completed);
                let is_done =
                    life.steps.get(&step).is_some_and(|(_, status)| *status == StepStatus::Completed);
                if was_done && !is_done && !life.in_doubt.contains(&step) && life.in_doubt.is_empty() {
                    effect.can_be_left_undone = true;
                }
            }
            report.effects.push(effect);
        }
        for (place, fate, life) in lives {
            let is_held = !life.in_doubt.is_empty();
            let deviates = life.violation.is_some() && usual.violation.is_none();
            if (life.end != usual.end || deviates) && !is_held {
                let text = match &life.violation {
                    Some(violation) => format!("the workflow is not deterministic: {violation}"),
                    None => {
                        format!(
                            "the run is {} instead of {}{}",
                            life.end.as_str(),
                            usual.end.as_str(),
                            life.why()
                        )
                    }
                };
                report.stories.push(story(place, *fate, life, text));
            }
        }
    }

    /// The story of a run that does not end as the test expects, with nothing gone wrong.
    fn unexpected(&self, usual: &Life) -> Story {
        let next = match self.expected {
            ExpectEnd::Completed if usual.end.is_closed() => {
                "repair the workflow, or say `.expect_failure()` if it is meant to fail"
            }
            ExpectEnd::Completed => {
                "give it what it waits for with `.outside(..)`, register its children with `.also(..)`, or say \
                 `.expect_waiting()` if it is meant to wait"
            }
            ExpectEnd::Failed => "leave `.expect_failure()` out if it is not meant to fail",
            ExpectEnd::Waiting => "leave `.expect_waiting()` out if it is not meant to wait",
        };
        let told = match &usual.violation {
            Some(violation) => format!("the workflow is not deterministic: {violation}"),
            None => format!("the run is {}{}; {next}", usual.end.as_str(), usual.why()),
        };
        Story { crash: "without a crash".to_string(), outcome: told, length: 0 }
    }

    /// One life of the run, struck at one place or at none.
    async fn live(&self, strike: Option<(&Place, Fate)>) -> Life {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let struck: Arc<OnceLock<Weak<Inner>>> = Arc::default();
        let mut lab = Lab::new();
        let line = Arc::new(Partition::new(lab.store()));
        let first = {
            let watcher = watcher(&seen, strike.map(|(place, fate)| (place.clone(), fate)), &struck, &line);
            let options = EngineOptions { watcher: Some(watcher), ..EngineOptions::default() };
            lab.launch_over(line.clone(), options)
        };
        let _ = struck.set(Arc::downgrade(&first.inner));
        self.register_all(&first);
        // Delayed, so that it is claimed like a run that another process started.
        let delay = std::time::Duration::from_millis(1);
        let input: serde_json::Value = self.input.to().expect("it was JSON");
        let started = first.start(NAME, &input).delay(delay).await;
        let run = started.expect("a fresh engine starts a run").id();
        let helping = self.help(&first, run);
        let _ = self.settle_first(&lab, &first, run, &seen).await;
        let mut helpers = vec![helping];
        if seen.lock().expect("no watcher panics").struck {
            let counting = watcher(&seen, None, &Arc::default(), &line);
            lab.crash_into(EngineOptions { watcher: Some(counting), ..EngineOptions::default() });
            self.register_all(lab.engine());
            helpers.push(self.help(lab.engine(), run));
            let _ = lab.settle(run).await;
            // The one that was taken for dead comes back.
            line.cut(false);
            lab.idle().await;
            let _ = lab.settle(run).await;
        }
        helpers.into_iter().flatten().for_each(|helper| helper.abort());
        let life = self.look_back(&lab, run, &seen).await;
        first.kill();
        life
    }

    /// Lets the first engine get on until it is struck or the run stands still.
    async fn settle_first(
        &self,
        lab: &Lab,
        first: &Engine,
        run: RunId,
        seen: &Mutex<Seen>,
    ) -> Result<(), Error> {
        let mut span = std::time::Duration::from_millis(1);
        let mut last = None;
        for _ in 0..200 {
            lab.idle().await;
            if seen.lock().expect("no watcher panics").struck {
                return Ok(());
            }
            let head = first.get(run).await?.head;
            if head.status().is_closed() || head.state.wake_at().is_none() {
                return Ok(());
            }
            span = match last.replace(head.version) == Some(head.version) {
                true => (span * 2).min(std::time::Duration::from_secs(24 * 3600)),
                false => std::time::Duration::from_millis(1),
            };
            lab.clock().advance(span);
        }
        Ok(())
    }

    fn register_all(&self, engine: &Engine) {
        (self.register)(engine).expect("a fresh engine knows no workflow");
        for register in &self.also {
            register(engine).expect("what else the engine needs can be registered");
        }
    }

    fn help(&self, engine: &Engine, run: RunId) -> Option<tokio::task::JoinHandle<()>> {
        self.outside.as_ref().map(|outside| tokio::spawn(outside(engine.clone(), run)))
    }

    async fn look_back(&self, lab: &Lab, run: RunId, seen: &Mutex<Seen>) -> Life {
        let log = lab.engine().get_log(run).await.expect("the run is there");
        let effects = log
            .steps
            .iter()
            .filter_map(|step| Some((step.id.to_string(), (step.kind.effect_class()?, step.state.status()))));
        let steps: BTreeMap<_, _> = effects.collect();
        let doubtful = steps.iter().filter(|(_, (_, status))| *status == StepStatus::InDoubt);
        let in_doubt = doubtful.map(|(step, _)| step.clone()).collect();
        let seen = std::mem::take(&mut *seen.lock().expect("no watcher panics"));
        let view = lab.engine().get(run).await.expect("the run is there");
        let failed = match view.result {
            Some(RunResult::Failed(failure)) => Some(failure),
            _ => None,
        };
        let is_violation = |failure: &&Failure| failure.code() == Some(DETERMINISM_VIOLATION);
        let violation = failed.as_ref().filter(is_violation).map(|failure| failure.message().to_string());
        let open = log.steps.iter().filter(|step| step.state.status() == StepStatus::Waiting);
        let waits_for = open.map(|step| format!("{} ({})", step.id, step.kind.as_str())).collect();
        let failure = failed.map(|failure| failure.to_string());
        Life { seen, end: log.head.status(), steps, in_doubt, failure, violation, waits_for }
    }
}

/// Notes every point, and strikes at the one it is to strike at.
fn watcher(
    seen: &Arc<Mutex<Seen>>,
    strike: Option<(Place, Fate)>,
    engine: &Arc<OnceLock<Weak<Inner>>>,
    line: &Arc<Partition>,
) -> PointWatcher {
    let (seen, engine, line) = (seen.clone(), engine.clone(), line.clone());
    PointWatcher::new(move |point| {
        let step = match point {
            Point::BeforeEffect(_, step) | Point::AfterEffect(_, step) | Point::KeyRead(_, step) => {
                Some(step.to_string())
            }
            // Nothing becomes durable between the beginning of an effect and its send: a crash at either is the same.
            Point::BeforeSend(..) => return,
            _ => None,
        };
        let mut seen = seen.lock().expect("no watcher panics");
        if let Point::KeyRead(_, step) = point {
            seen.keys_read.insert(step.to_string());
            return;
        }
        let nth = seen.counts.entry((point.name(), step.clone())).or_default();
        *nth += 1;
        let place = Place { point: point.name(), step, nth: *nth };
        let fate = strike.as_ref().filter(|(at, _)| *at == place && !seen.struck).map(|(_, fate)| *fate);
        if let Some(fate) = fate {
            seen.struck = true;
            seen.entered_before = seen.entered.values().sum();
            match fate {
                Fate::Crash => {
                    let inner = engine.get().and_then(Weak::upgrade);
                    drop(seen);
                    if let Some(inner) = inner {
                        inner.kill();
                    }
                    return;
                }
                Fate::Zombie => line.cut(true),
            }
        }
        if let Point::BeforeEffect(_, step) = point {
            *seen.entered.entry(step.to_string()).or_default() += 1;
        }
        seen.places.push(place);
    })
}

fn story(place: &Place, fate: Fate, life: &Life, outcome: String) -> Story {
    let at = match (place.point, place.step.as_deref()) {
        ("before_effect", Some(step)) => format!("before `{step}` ran"),
        ("after_effect", Some(step)) => format!("after `{step}` ran and before it was recorded"),
        ("before_record", _) => format!("before the {} record was written", ordinal(place.nth)),
        ("after_record", _) => format!("after the {} record was written", ordinal(place.nth)),
        ("before_completion", _) => "before the end of the run was written".to_string(),
        ("after_completion", _) => "after the end of the run was written".to_string(),
        (point, _) => point.replace('_', " "),
    };
    let crash = match fate {
        Fate::Crash => format!("crash {at}"),
        Fate::Zombie => format!("a worker that stopped {at} and came back after another had taken over"),
    };
    Story { crash, outcome, length: life.seen.entered_before }
}

fn twice(step: &str, class: EffectClass) -> String {
    match class {
        EffectClass::Idempotent => {
            format!("`{step}` ran twice; declare it claimed, give it a probe, or make it idempotent by key")
        }
        EffectClass::Claimed | EffectClass::Transactional => {
            format!(
                "`{step}` ran twice, though it is {class}: ON_DOUBT may say `retry`, or the code fails and tries again"
            )
        }
    }
}

fn ordinal(nth: u32) -> String {
    match nth {
        1 => "first".into(),
        2 => "second".into(),
        3 => "third".into(),
        n => format!("{n}th"),
    }
}
