//! Clients that start runs of workers through any node, and sometimes cancel them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{RunId, WorkspaceId};
use hapax_engine::store::Store;
use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::script::Script;
use super::simulated_nodes::WORKFLOW;
use super::watch::at_once;
use super::world::World;

/// One run that a client wants.
pub struct RunRequest {
    key: String,
    script: Script,
    deadline: Option<Duration>,
    is_cancelled: bool,
    is_awaited: AtomicBool,
}

impl RunRequest {
    pub fn draw(world: &World, number: usize) -> Arc<Self> {
        let deadline = world.chance(8).then(|| world.span(Duration::from_secs(15)));
        let (script, is_cancelled) = (world.roll(Script::draw), world.chance(6));
        let is_awaited = AtomicBool::new(true);
        Arc::new(RunRequest { key: format!("errand-{number}"), script, deadline, is_cancelled, is_awaited })
    }

    pub fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    pub async fn pursue(self: Arc<Self>, world: Arc<World>, fleet: Arc<Fleet>) {
        sleep(world.span(world.settings.storm / 2)).await;
        let run = self.start(&world, &fleet).await;
        if let Some(run) = run {
            world.log("client", &format!("{} is {}", self.key, world.name(run)));
            if self.is_cancelled {
                sleep(world.span(Duration::from_secs(3))).await;
                if let Some(member) = fleet.any() {
                    let _ = timeout(world.settings.lease_for, member.engine.cancel(run, "not needed")).await;
                }
            }
            let is_closed = || {
                let view = at_once(world.store.find_run(&WorkspaceId::default(), run));
                view.is_some_and(|view| view.head.status().is_closed())
            };
            while !is_closed() {
                sleep(Duration::from_millis(200)).await;
            }
        }
        self.is_awaited.store(false, Ordering::Relaxed);
    }

    async fn start(&self, world: &World, fleet: &Fleet) -> Option<RunId> {
        loop {
            sleep(world.span(Duration::from_millis(300))).await;
            let Some(member) = fleet.any() else { continue };
            let mut start = member.engine.start(WORKFLOW, &self.script).idempotency_key(&self.key);
            if let Some(deadline) = self.deadline {
                start = start.deadline(deadline);
            }
            match timeout(world.settings.lease_for * 2, start).await {
                Ok(Ok(handle)) => return Some(handle.id()),
                Err(_) | Ok(Err(Error::ShuttingDown)) => {}
                Ok(Err(Error::Store(error))) if error.is_retryable() => {}
                Ok(Err(error)) => {
                    world.break_off(format!("{} was refused: {error}", self.key));
                    return None;
                }
            }
        }
    }
}
