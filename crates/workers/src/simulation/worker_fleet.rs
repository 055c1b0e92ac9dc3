//! The workers: launched, crashed, frozen and replaced by others, sometimes while the older one still lives.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::sleep;

use super::Coverage;
use super::machine::Machine;
use super::node::Node;
use super::simulated_nodes::SimulatedNodes;
use super::world::World;

/// Workers of a simulation.
pub struct WorkerFleet {
    world: Arc<World>,
    offices: Arc<SimulatedNodes>,
    slots: Mutex<Vec<Option<Arc<Node>>>>,
    lives: AtomicU32,
    reached: Arc<Mutex<Coverage>>,
    is_over: AtomicBool,
}

impl WorkerFleet {
    pub fn launch(world: &Arc<World>, offices: &Arc<SimulatedNodes>) -> Arc<Self> {
        let count = world.roll(|dice| dice.usize(1..=3));
        let force = Arc::new(WorkerFleet {
            world: world.clone(),
            offices: offices.clone(),
            slots: Mutex::new(vec![None; count]),
            lives: AtomicU32::new(0),
            reached: Arc::default(),
            is_over: AtomicBool::new(false),
        });
        (0..count).for_each(|slot| force.fill(slot));
        force
    }

    /// Launches a worker. If the slot has one, two live side by side, and the newer one replaces the other.
    fn fill(self: &Arc<Self>, slot: usize) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let life = self.lives.fetch_add(1, Ordering::Relaxed) + 1;
        let node = Arc::new(Node::new(100 + slot, life));
        self.world.log(&node.name, "a worker starts");
        // Half of them have a name over restarts.
        let instance = slot.is_multiple_of(2).then(|| format!("slot-{slot}"));
        let machine = Machine::new(&self.world, &self.offices, node.clone(), instance, &self.reached);
        self.slots.lock().unwrap()[slot] = Some(node);
        tokio::spawn(machine.live());
    }

    /// Disturbs one worker after another.
    pub async fn unrest(self: Arc<Self>) {
        let settings = self.world.settings;
        loop {
            sleep(self.world.span(settings.blow_every)).await;
            let count = self.slots.lock().unwrap().len();
            let slot = self.world.roll(|dice| dice.usize(0..count));
            let node = self.slots.lock().unwrap()[slot].clone();
            match (self.world.roll(|dice| dice.u32(0..6)), node) {
                (0 | 1, Some(node)) => {
                    self.world.log(&node.name, "crashes");
                    self.reached.lock().unwrap().worker_crashes += 1;
                    node.die();
                    sleep(self.world.span(settings.lease_for)).await;
                    self.fill(slot);
                }
                (2 | 3, Some(node)) => {
                    self.world.log(&node.name, "is stopped");
                    self.reached.lock().unwrap().worker_freezes += 1;
                    node.freeze(true);
                    let span = self.world.span(settings.lease_for * 5 / 2);
                    tokio::spawn(async move {
                        sleep(span).await;
                        node.freeze(false);
                    });
                }
                (4, _) => self.fill(slot),
                _ => {}
            }
        }
    }

    /// The storm is over: every slot has a worker that lives.
    pub fn heal(self: &Arc<Self>) {
        let slots = self.slots.lock().unwrap().clone();
        let count = slots.len();
        for (slot, node) in slots.into_iter().enumerate() {
            match node.filter(|node| !node.is_dead()) {
                Some(node) => node.freeze(false),
                None => self.fill(slot),
            }
        }
        // One that was replaced, and whose successor crashed, does not come back by itself.
        (0..count).for_each(|slot| self.fill(slot));
    }

    pub fn reached(&self) -> Coverage {
        let mut reached = *self.reached.lock().unwrap();
        reached.doubts = self.world.tally.lock().unwrap().doubts_resolved;
        reached
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for node in self.slots.lock().unwrap().iter().flatten() {
            node.die();
        }
    }
}
