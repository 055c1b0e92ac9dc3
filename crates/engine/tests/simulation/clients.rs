//! Clients that start runs through any reachable node and wait for the runs to end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::model::{IdempotencyKey, KeyKind, Priority, RunId, RunResult, WorkspaceId};
use hapax_engine::store::{Store, StoreError};
use hapax_engine::{Error, RunHandle};
use tokio::time::{sleep, timeout};

use super::fleet::{Fleet, SimulatedNode};
use super::program::Program;
use super::program_workflow::WORKFLOW;
use super::watch::at_once;
use super::world::World;

/// One piece of work that a client wants done once.
pub struct Job {
    key: String,
    program: Program,
    delay: Option<Duration>,
    deadline: Option<Duration>,
    priority: Priority,
    /// Run that does the work, once a client knows it.
    run: Mutex<Option<RunId>>,
    /// Number of starts that reported creating the run.
    created: Mutex<u32>,
    waiting: Mutex<bool>,
}

impl Job {
    pub fn draw(world: &World, number: usize) -> Arc<Self> {
        let program = world.roll(Program::draw);
        let delay = world.chance(6).then(|| world.span(Duration::from_secs(3)));
        let deadline = world.chance(6).then(|| world.span(Duration::from_secs(15)));
        let priority =
            *world.roll(|dice| *dice.choice(&[&Priority::Low, &Priority::Normal, &Priority::High]).unwrap());
        Arc::new(Job {
            key: format!("job-{number}"),
            program,
            delay,
            deadline,
            priority,
            run: Mutex::default(),
            created: Mutex::default(),
            waiting: Mutex::new(true),
        })
    }

    pub fn run(&self) -> Option<RunId> {
        *self.run.lock().unwrap()
    }

    /// Returns true while a client waits for its end.
    pub fn is_awaited(&self) -> bool {
        *self.waiting.lock().unwrap()
    }

    /// Starts the job through several nodes, some of them concurrently, and waits for its end.
    pub async fn pursue(self: Arc<Self>, world: Arc<World>, fleet: Arc<Fleet>) {
        sleep(world.span(world.settings.storm / 2)).await;
        self.try_once(&world, &fleet).await;
        let others = world.roll(|dice| dice.usize(0..3));
        let others: Vec<_> =
            (0..others).map(|_| tokio::spawn(self.clone().start(world.clone(), fleet.clone()))).collect();
        self.clone().start(world.clone(), fleet.clone()).await;
        self.wait(&world, &fleet).await;
        for other in others {
            other.await.expect("no client panics");
        }
        *self.waiting.lock().unwrap() = false;
    }

    /// The very first start. If it reports that nothing was written, then nothing was written and nothing will be.
    async fn try_once(&self, world: &World, fleet: &Fleet) {
        let Some(member) = fleet.any() else { return };
        let outcome = self.send(&member).await;
        world.log("client", &format!("{} first try: {}", self.key, told(&outcome)));
        match outcome {
            Ok(handle) => self.learn(world, &handle),
            Err(Error::Store(StoreError::Unavailable(_))) => {
                sleep(world.span(Duration::from_millis(500))).await;
                let key = IdempotencyKey::new(&self.key).expect("a sound key");
                if at_once(world.store.find_key(&WorkspaceId::default(), KeyKind::Run, &key)).is_some() {
                    world.break_off(format!("invariant 3: {} was said not to be written", self.key));
                }
            }
            Err(_) => {}
        }
    }

    /// Calls start until a node returns the run's id.
    async fn start(self: Arc<Self>, world: Arc<World>, fleet: Arc<Fleet>) {
        loop {
            sleep(world.span(Duration::from_millis(300))).await;
            let Some(member) = fleet.any() else { continue };
            let impatience = world.span(world.settings.lease_for * 2);
            let Ok(outcome) = timeout(impatience, self.send(&member)).await else { continue };
            world.log("client", &format!("{} start: {}", self.key, told(&outcome)));
            match outcome {
                Ok(handle) => {
                    self.learn(&world, &handle);
                    break;
                }
                Err(Error::Store(error)) if error.is_retryable() => {}
                Err(Error::ShuttingDown) => {}
                Err(error) => {
                    return world.break_off(format!("{} was refused: {error}", self.key));
                }
            }
        }
        if world.chance(3)
            && let Some(member) = fleet.any()
        {
            let start = member.engine.start(WORKFLOW, "something else").idempotency_key(&self.key);
            let refused =
                matches!(start.await, Err(Error::KeyConflict { .. } | Error::Store(_) | Error::ShuttingDown));
            if !refused {
                world.break_off(format!("invariant 10: {} was started with another input", self.key));
            }
        }
    }

    /// Starts the job again, after its run may have been purged: the key still belongs to that run.
    pub async fn check_key(self: Arc<Self>, world: &World, fleet: &Fleet) -> Result<(), String> {
        loop {
            let Some(member) = fleet.any() else { return Err("no node is left".into()) };
            let known = self.run();
            match self.send(&member).await {
                Ok(handle) if Some(handle.id()) == known && !handle.created => return Ok(()),
                Err(Error::KeySpent { run }) if Some(run) == known => return Ok(()),
                Err(Error::Store(error)) if error.is_retryable() => {}
                Err(Error::ShuttingDown) => {}
                other => {
                    return Err(format!("invariant 9: {} was {known:?}; now: {}", self.key, told(&other)));
                }
            }
            sleep(world.span(Duration::from_millis(300))).await;
        }
    }

    async fn send(&self, member: &SimulatedNode) -> Result<RunHandle, Error> {
        let mut start = member.engine.start(WORKFLOW, &self.program).idempotency_key(&self.key);
        start = start.priority(self.priority);
        if let Some(delay) = self.delay {
            start = start.delay(delay);
        }
        if let Some(deadline) = self.deadline {
            start = start.deadline(deadline);
        }
        start.await
    }

    /// Invariant 9: all starts return the same run, and at most one of them created it.
    fn learn(&self, world: &World, handle: &RunHandle) {
        let known = *self.run.lock().unwrap().get_or_insert(handle.id());
        let mut created = self.created.lock().unwrap();
        *created += u32::from(handle.created);
        if known != handle.id() || *created > 1 {
            world.break_off(format!("invariant 9: {} came to two runs, or was created twice", self.key));
        }
    }

    /// Waits through one node after another until one of them reports the end.
    async fn wait(&self, world: &World, fleet: &Fleet) {
        let Some(run) = self.run() else { return };
        loop {
            sleep(world.span(Duration::from_millis(200))).await;
            let Some(member) = fleet.any() else { continue };
            let ending = async { member.engine.run(run).await?.wait_for_end().await };
            let ended = tokio::select! {
                biased;
                () = member.node.death() => continue,
                ended = ending => ended,
            };
            match ended {
                Ok(result) => return self.compare(world, run, &result),
                Err(Error::Store(error)) if error.is_retryable() => {}
                Err(error) => {
                    return world.break_off(format!("the end of {} is not told: {error}", self.key));
                }
            }
        }
    }

    fn compare(&self, world: &World, run: RunId, told: &RunResult) {
        world.count(|tally| tally.waiters_told += 1);
        let view = at_once(world.store.find_run(&WorkspaceId::default(), run)).expect("no run is deleted");
        let reopened = view.head.status() != hapax_engine::model::RunStatus::Completed;
        if view.result.as_ref() != Some(told) && !reopened {
            world.break_off(format!("{} was told to have ended otherwise than it did", self.key));
        }
    }
}

fn told(outcome: &Result<RunHandle, Error>) -> String {
    match outcome {
        Ok(handle) => format!("ok, created: {}", handle.created),
        Err(error) => error.to_string().chars().take(60).collect(),
    }
}
