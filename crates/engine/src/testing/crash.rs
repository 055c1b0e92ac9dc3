//! Crashes a workflow at every crash point.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::partition::Partition;
use super::report::{CrashFinding, CrashReport, EffectReport, ExpectEnd};
use super::test_environment::TestEnvironment;
use crate::ctx::Ctx;
use crate::model::{EffectClass, Failure, Payload, RunId, RunResult, RunStatus, StepStatus};
use crate::runtime::{CrashPoint, CrashPointWatcher, Inner};
use crate::{Engine, EngineOptions, Error};

const NAME: &str = "workflow";
const DETERMINISM_VIOLATION: &str = "determinism_violation";

type Register = Arc<dyn Fn(&Engine) -> Result<(), Error> + Send + Sync>;
type OutsideAction = Arc<dyn Fn(Engine, RunId) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Crashes `workflow` at every point and checks that no effect happens twice.
///
/// It runs the workflow once to find its crash points, then once per point with a crash there, and once per
/// write with a worker that comes back after another has taken over. It fails the test with the shortest
/// finding where an effect happens twice or the run ends differently. It also fails if the run does not
/// complete without a crash ([`CrashEverywhere::expect_failure`], [`CrashEverywhere::expect_waiting`]).
///
/// The declared class of a step decides what counts as harm. A step that is neither claimed nor transactional
/// may run again if its code reads its key
/// ([`Attempt::idempotency_key`](crate::ctx::Attempt::idempotency_key)). Name steps that may run again
/// without a key with [`CrashEverywhere::repeatable`].
///
/// # Panics
///
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

/// Configurable version of [`crash_everywhere`].
pub struct CrashEverywhere {
    register: Register,
    also: Vec<Register>,
    input: Payload,
    outside: Option<OutsideAction>,
    repeatable: BTreeSet<String>,
    expected: ExpectEnd,
}

/// Position of a fault: the `nth` time that this point is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CrashPlace {
    point: &'static str,
    step: Option<String>,
    nth: u32,
}

/// Fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InjectedFault {
    /// The process dies.
    Crash,
    /// The process stops, another takes over, and then the first continues.
    Zombie,
}

/// Observations during one execution of the run.
#[derive(Debug, Default)]
struct Trace {
    places: Vec<CrashPlace>,
    counts: BTreeMap<(&'static str, Option<String>), u32>,
    entered: BTreeMap<String, u32>,
    keys_read: BTreeSet<String>,
    has_faulted: bool,
    entered_before: u32,
}

/// One execution of the run and its result.
struct Execution {
    trace: Trace,
    end: RunStatus,
    steps: BTreeMap<String, (EffectClass, StepStatus)>,
    in_doubt: BTreeSet<String>,
    /// Reason for a failure.
    failure: Option<String>,
    /// Determinism violation, if the code deviated from its history.
    violation: Option<String>,
    /// Steps that an open run waits for.
    waits_for: Vec<String>,
}

impl Execution {
    /// Known cause, as the end of a sentence.
    fn why(&self) -> String {
        match &self.failure {
            Some(failure) => format!(": {failure}"),
            None if self.waits_for.is_empty() => String::new(),
            None => format!(": it waits for {}", self.waits_for.join(", ")),
        }
    }
}

impl CrashEverywhere {
    /// Creates a test of `workflow` with `input`.
    ///
    /// # Panics
    ///
    /// If the input cannot be stored.
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

    /// Registers what else the engine needs, such as child workflows and targets.
    #[must_use]
    pub fn also(mut self, register: impl Fn(&Engine) -> Result<(), Error> + Send + Sync + 'static) -> Self {
        self.also.push(Arc::new(register));
        self
    }

    /// Simulates the outside world while the run is open, for example by settling its promises. It is called
    /// again after each crash.
    #[must_use]
    pub fn outside<F, Fut>(mut self, outside: F) -> Self
    where
        F: Fn(Engine, RunId) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.outside = Some(Arc::new(move |engine, run| Box::pin(outside(engine, run))));
        self
    }

    /// Declares that this step may run again without a key, for example because it sets a value.
    #[must_use]
    pub fn repeatable(mut self, step: &str) -> Self {
        self.repeatable.insert(step.to_string());
        self
    }

    /// Expects the run to fail or to be cancelled.
    #[must_use]
    pub fn expect_failure(mut self) -> Self {
        self.expected = ExpectEnd::Failed;
        self
    }

    /// Expects the run to wait for an event that the test does not send.
    #[must_use]
    pub fn expect_waiting(mut self) -> Self {
        self.expected = ExpectEnd::Waiting;
        self
    }

    /// Runs all executions and returns the report. A run that does not end as expected without a crash is the
    /// first finding.
    pub async fn run(&self) -> CrashReport {
        let usual = self.execute(None).await;
        let mut report = CrashReport { usual_end: Some(usual.end), ..CrashReport::default() };
        if !self.expected.is_met_by(usual.end) {
            report.findings.push(self.unexpected(&usual));
        }
        let mut executions = Vec::new();
        for place in usual.trace.places.clone() {
            let execution = self.execute(Some((&place, InjectedFault::Crash))).await;
            if execution.trace.has_faulted {
                report.crashes += 1;
                executions.push((place.clone(), InjectedFault::Crash, execution));
            }
            let is_about_writing =
                matches!(place.point, "after_effect" | "before_record" | "before_completion");
            if is_about_writing {
                let execution = self.execute(Some((&place, InjectedFault::Zombie))).await;
                if execution.trace.has_faulted {
                    report.zombies += 1;
                    executions.push((place, InjectedFault::Zombie, execution));
                }
            }
        }
        self.judge(&usual, &executions, &mut report);
        report.findings.sort_by_key(|finding| finding.length);
        report
    }

    fn judge(
        &self,
        usual: &Execution,
        executions: &[(CrashPlace, InjectedFault, Execution)],
        report: &mut CrashReport,
    ) {
        let reads_key = |step: &str| {
            usual.trace.keys_read.contains(step)
                || executions.iter().any(|(.., execution)| execution.trace.keys_read.contains(step))
        };
        let mut order: Vec<String> = Vec::new();
        for place in &usual.trace.places {
            if let Some(step) = place.step.as_ref().filter(|step| !order.contains(step)) {
                order.push(step.clone());
            }
        }
        // Steps that run only after a crash are checked too. Their expected count is zero.
        let strange = executions.iter().flat_map(|(.., execution)| execution.trace.entered.keys().cloned());
        let strange: BTreeSet<String> = strange.filter(|step| !order.contains(step)).collect();
        order.extend(strange);
        for step in order {
            let class = executions
                .iter()
                .map(|(.., execution)| execution)
                .chain([usual])
                .find_map(|execution| execution.steps.get(&step));
            let class = class.map_or(EffectClass::Idempotent, |(class, _)| *class);
            let count = |execution: &Execution| execution.trace.entered.get(&step).copied().unwrap_or(0);
            let mut effect = EffectReport {
                usual: count(usual),
                most: executions
                    .iter()
                    .map(|(.., execution)| count(execution))
                    .chain([count(usual)])
                    .max()
                    .unwrap_or(0),
                reads_key: reads_key(&step),
                can_happen_twice: false,
                can_be_in_doubt: executions.iter().any(|(.., execution)| execution.in_doubt.contains(&step)),
                can_be_left_undone: false,
                class,
                name: step.clone(),
            };
            let may_repeat =
                class == EffectClass::Idempotent && (effect.reads_key || self.repeatable.contains(&step));
            for (place, fault, execution) in executions {
                let again = count(execution) > effect.usual;
                if again && !may_repeat {
                    effect.can_happen_twice = true;
                    report.findings.push(finding(place, *fault, execution, twice(&step, class)));
                }
                let was_done =
                    usual.steps.get(&step).is_some_and(|(_, status)| *status == StepStatus::Completed);
                let is_done =
                    execution.steps.get(&step).is_some_and(|(_, status)| *status == StepStatus::Completed);
                if was_done
                    && !is_done
                    && !execution.in_doubt.contains(&step)
                    && execution.in_doubt.is_empty()
                {
                    effect.can_be_left_undone = true;
                }
            }
            report.effects.push(effect);
        }
        for (place, fault, execution) in executions {
            let is_held = !execution.in_doubt.is_empty();
            let deviates = execution.violation.is_some() && usual.violation.is_none();
            if (execution.end != usual.end || deviates) && !is_held {
                let text = match &execution.violation {
                    Some(violation) => format!("the workflow is not deterministic: {violation}"),
                    None => {
                        format!(
                            "the run is {} instead of {}{}",
                            execution.end.as_str(),
                            usual.end.as_str(),
                            execution.why()
                        )
                    }
                };
                report.findings.push(finding(place, *fault, execution, text));
            }
        }
    }

    /// Finding for a run that does not end as expected without any fault.
    fn unexpected(&self, usual: &Execution) -> CrashFinding {
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
        CrashFinding { crash: "without a crash".to_string(), outcome: told, length: 0 }
    }

    /// Executes the run once, with at most one injected fault.
    async fn execute(&self, injected: Option<(&CrashPlace, InjectedFault)>) -> Execution {
        let trace: Arc<Mutex<Trace>> = Arc::default();
        let has_faulted: Arc<OnceLock<Weak<Inner>>> = Arc::default();
        let mut env = TestEnvironment::new();
        let line = Arc::new(Partition::new(env.store()));
        let first = {
            let watcher =
                watcher(&trace, injected.map(|(place, fault)| (place.clone(), fault)), &has_faulted, &line);
            let options = EngineOptions { watcher: Some(watcher), ..EngineOptions::default() };
            env.launch_over(line.clone(), options)
        };
        let _ = has_faulted.set(Arc::downgrade(&first.inner));
        self.register_all(&first);
        // Delayed, so that the run is claimed like one that another process started.
        let delay = std::time::Duration::from_millis(1);
        let input: serde_json::Value = self.input.to().expect("it was JSON");
        let started = first.start(NAME, &input).delay(delay).await;
        let run = started.expect("a fresh engine starts a run").id();
        let outside_task = self.help(&first, run);
        let _ = self.settle_first(&env, &first, run, &trace).await;
        let mut outside_tasks = vec![outside_task];
        if trace.lock().expect("no watcher panics").has_faulted {
            let counting = watcher(&trace, None, &Arc::default(), &line);
            env.crash_into(EngineOptions { watcher: Some(counting), ..EngineOptions::default() });
            self.register_all(env.engine());
            outside_tasks.push(self.help(env.engine(), run));
            let _ = env.settle(run).await;
            // The worker that was considered dead comes back.
            line.cut(false);
            env.idle().await;
            let _ = env.settle(run).await;
        }
        outside_tasks.into_iter().flatten().for_each(|helper| helper.abort());
        let execution = self.collect(&env, run, &trace).await;
        first.kill();
        execution
    }

    /// Lets the first engine work until the fault is injected or the run makes no progress.
    async fn settle_first(
        &self,
        env: &TestEnvironment,
        first: &Engine,
        run: RunId,
        trace: &Mutex<Trace>,
    ) -> Result<(), Error> {
        let mut span = std::time::Duration::from_millis(1);
        let mut last = None;
        for _ in 0..200 {
            env.idle().await;
            if trace.lock().expect("no watcher panics").has_faulted {
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
            env.clock().advance(span);
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

    async fn collect(&self, env: &TestEnvironment, run: RunId, trace: &Mutex<Trace>) -> Execution {
        let log = env.engine().get_log(run).await.expect("the run is there");
        let effects = log
            .steps
            .iter()
            .filter_map(|step| Some((step.id.to_string(), (step.kind.effect_class()?, step.state.status()))));
        let steps: BTreeMap<_, _> = effects.collect();
        let doubtful = steps.iter().filter(|(_, (_, status))| *status == StepStatus::InDoubt);
        let in_doubt = doubtful.map(|(step, _)| step.clone()).collect();
        let trace = std::mem::take(&mut *trace.lock().expect("no watcher panics"));
        let view = env.engine().get(run).await.expect("the run is there");
        let failed = match view.result {
            Some(RunResult::Failed(failure)) => Some(failure),
            _ => None,
        };
        let is_violation = |failure: &&Failure| failure.code() == Some(DETERMINISM_VIOLATION);
        let violation = failed.as_ref().filter(is_violation).map(|failure| failure.message().to_string());
        let open = log.steps.iter().filter(|step| step.state.status() == StepStatus::Waiting);
        let waits_for = open.map(|step| format!("{} ({})", step.id, step.kind.as_str())).collect();
        let failure = failed.map(|failure| failure.to_string());
        Execution { trace, end: log.head.status(), steps, in_doubt, failure, violation, waits_for }
    }
}

/// Creates a watcher that records every point and injects the fault at its position.
fn watcher(
    trace: &Arc<Mutex<Trace>>,
    injected: Option<(CrashPlace, InjectedFault)>,
    engine: &Arc<OnceLock<Weak<Inner>>>,
    line: &Arc<Partition>,
) -> CrashPointWatcher {
    let (trace, engine, line) = (trace.clone(), engine.clone(), line.clone());
    CrashPointWatcher::new(move |point| {
        let step = match point {
            CrashPoint::BeforeEffect(_, step)
            | CrashPoint::AfterEffect(_, step)
            | CrashPoint::KeyRead(_, step) => Some(step.to_string()),
            // Nothing becomes durable between the start of an effect and its send, so a crash at either point
            // is the same.
            CrashPoint::BeforeSend(..) => return,
            _ => None,
        };
        let mut trace = trace.lock().expect("no watcher panics");
        if let CrashPoint::KeyRead(_, step) = point {
            trace.keys_read.insert(step.to_string());
            return;
        }
        let nth = trace.counts.entry((point.name(), step.clone())).or_default();
        *nth += 1;
        let place = CrashPlace { point: point.name(), step, nth: *nth };
        let fault =
            injected.as_ref().filter(|(at, _)| *at == place && !trace.has_faulted).map(|(_, fault)| *fault);
        if let Some(fault) = fault {
            trace.has_faulted = true;
            trace.entered_before = trace.entered.values().sum();
            match fault {
                InjectedFault::Crash => {
                    let inner = engine.get().and_then(Weak::upgrade);
                    drop(trace);
                    if let Some(inner) = inner {
                        inner.kill();
                    }
                    return;
                }
                InjectedFault::Zombie => line.cut(true),
            }
        }
        if let CrashPoint::BeforeEffect(_, step) = point {
            *trace.entered.entry(step.to_string()).or_default() += 1;
        }
        trace.places.push(place);
    })
}

fn finding(place: &CrashPlace, fault: InjectedFault, execution: &Execution, outcome: String) -> CrashFinding {
    let at = match (place.point, place.step.as_deref()) {
        ("before_effect", Some(step)) => format!("before `{step}` ran"),
        ("after_effect", Some(step)) => format!("after `{step}` ran and before it was recorded"),
        ("before_record", _) => format!("before the {} record was written", ordinal(place.nth)),
        ("after_record", _) => format!("after the {} record was written", ordinal(place.nth)),
        ("before_completion", _) => "before the end of the run was written".to_string(),
        ("after_completion", _) => "after the end of the run was written".to_string(),
        (point, _) => point.replace('_', " "),
    };
    let crash = match fault {
        InjectedFault::Crash => format!("crash {at}"),
        InjectedFault::Zombie => {
            format!("a worker that stopped {at} and came back after another had taken over")
        }
    };
    CrashFinding { crash, outcome, length: execution.trace.entered_before }
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
