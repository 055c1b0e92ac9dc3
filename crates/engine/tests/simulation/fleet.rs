//! The nodes: launched, crashed, frozen, cut off, retired, and replaced by others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::runtime::Stats;
use hapax_engine::{Engine, EngineOptions};

use super::faulty_store::FaultyStore;
use super::node::{Node, NodeClock};
use super::program_workflow;
use super::shop;
use super::world::{NOON, World};

/// Code that registers workflows and entities with a fresh node.
pub type RegisterCode = Box<dyn Fn(&SimulatedNode) + Send + Sync>;

pub struct Fleet {
    world: Arc<World>,
    furnish: RegisterCode,
    slots: Mutex<Vec<Slot>>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Slot {
    lives: u32,
    member: Option<SimulatedNode>,
}

/// A node with its engine.
#[derive(Clone)]
pub struct SimulatedNode {
    pub node: Arc<Node>,
    pub engine: Engine,
    pub store: Arc<FaultyStore>,
    clock: Arc<NodeClock>,
}

impl Fleet {
    /// Launches nodes that run programs and process orders.
    pub fn launch(world: Arc<World>) -> Arc<Self> {
        let of = world.clone();
        Self::launch_with(
            world,
            Box::new(move |member| {
                program_workflow::register(&member.engine, &of, &member.node);
                shop::open(&member.engine, &of, &member.node);
            }),
        )
    }

    pub fn launch_with(world: Arc<World>, furnish: RegisterCode) -> Arc<Self> {
        let slots = (0..world.settings.nodes).map(|_| Slot::default()).collect();
        let is_over = AtomicBool::new(false);
        let fleet = Arc::new(Fleet { world, furnish, slots: Mutex::new(slots), is_over });
        (0..fleet.world.settings.nodes).for_each(|slot| fleet.fill(slot));
        fleet
    }

    /// Replaces a crashed or retired engine with a fresh one.
    pub fn fill(&self, slot: usize) {
        let settings = self.world.settings;
        let life = {
            let slot = &mut self.slots.lock().unwrap()[slot];
            if slot.member.is_some() || self.is_over.load(Ordering::Relaxed) {
                return;
            }
            slot.lives += 1;
            slot.lives
        };
        let node = Arc::new(Node::new(slot, life));
        self.world.log(&node.name, "starts");
        let clock = Arc::new(NodeClock::new(node.clone(), NOON.plus(self.world.elapsed())));
        if settings.clocks_are_wrong {
            clock.set_skew(self.world.roll(|dice| dice.i64(-3_600_000..=3_600_000)));
        }
        let store = Arc::new(FaultyStore::new(self.world.clone(), node.clone()));
        let options = EngineOptions {
            lease_for: settings.lease_for,
            poll_every: settings.poll_every,
            max_active: settings.max_active,
            max_resident: settings.max_resident,
            mark_after: settings.mark_after,
            max_child_depth: settings.families.depth,
            max_descendants: settings.families.descendants,
            children_per_second: settings.families.children_per_second,
            ..EngineOptions::default()
        };
        let engine = Engine::launch(store.clone(), clock.clone(), options).expect("the options are sound");
        let member = SimulatedNode { node, engine, store, clock };
        (self.furnish)(&member);
        self.slots.lock().unwrap()[slot].member = Some(member);
    }

    pub fn members(&self) -> Vec<SimulatedNode> {
        self.slots.lock().unwrap().iter().filter_map(|slot| slot.member.clone()).collect()
    }

    /// Any living node, as a load balancer would choose.
    pub fn any(&self) -> Option<SimulatedNode> {
        let members = self.members();
        match members.len() {
            0 => None,
            n => Some(members[self.world.roll(|dice| dice.usize(0..n))].clone()),
        }
    }

    fn take(&self, slot: usize) -> Option<SimulatedNode> {
        self.slots.lock().unwrap()[slot].member.take()
    }

    fn count_stats(&self, stats: &Stats) {
        self.world.count(|tally| tally.add_stats(stats));
    }

    /// Crashes the node: it loses all its memory.
    pub fn crash(&self, slot: usize) {
        let Some(member) = self.take(slot) else { return };
        self.world.log(&member.node.name, "crashes");
        self.world.count(|tally| tally.crashes += 1);
        member.node.die();
        member.engine.kill();
        self.count_stats(&member.engine.stats());
        // Half of the nodes restart under their identity, which proves that the earlier process is dead.
        if let Some(owner) = member.node.owner.get()
            && self.world.chance(2)
        {
            self.world.end_leases(&member.node.name, *owner);
        }
    }

    /// Shuts the node down in order, as far as the storm allows.
    pub async fn retire(&self, slot: usize, grace: Duration) {
        let Some(member) = self.take(slot) else { return };
        self.world.log(&member.node.name, "retires");
        self.world.count(|tally| tally.retirements += 1);
        let _ = tokio::time::timeout(grace * 2, member.engine.shutdown(grace)).await;
        member.node.die();
        member.engine.kill();
        self.world.log(&member.node.name, "is gone");
        self.count_stats(&member.engine.stats());
    }

    /// Freezes the node. It does not notice when it thaws.
    pub async fn freeze(&self, slot: usize, span: Duration) {
        let Some(member) = self.member(slot) else { return };
        self.world.log(&member.node.name, "freezes");
        self.world.count(|tally| tally.freezes += 1);
        member.node.freeze(true);
        tokio::time::sleep(span).await;
        member.node.freeze(false);
        self.world.log(&member.node.name, "thaws");
    }

    pub async fn cut_off(&self, slot: usize, span: Duration) {
        let Some(member) = self.member(slot) else { return };
        self.world.log(&member.node.name, "is cut off");
        self.world.count(|tally| tally.partitions += 1);
        member.node.cut_off(true);
        tokio::time::sleep(span).await;
        member.node.cut_off(false);
        self.world.log(&member.node.name, "is back on line");
    }

    pub fn jump(&self, slot: usize) {
        let Some(member) = self.member(slot) else { return };
        let skew_ms = self.world.roll(|dice| dice.i64(-3_600_000..=3_600_000));
        self.world.log(&member.node.name, &format!("has its wall clock off by {skew_ms} ms"));
        self.world.count(|tally| tally.clock_jumps += 1);
        member.clock.set_skew(skew_ms);
    }

    fn member(&self, slot: usize) -> Option<SimulatedNode> {
        self.slots.lock().unwrap()[slot].member.clone()
    }

    /// Crashes nodes that wait for an answer that will never come.
    pub fn crash_those_that_hang(&self) {
        for member in self.members().into_iter().filter(|member| member.node.hangs()) {
            self.crash(member.node.slot);
        }
    }

    /// Stops every engine at the end of the simulation.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        for member in self.members() {
            self.take(member.node.slot);
            member.node.die();
            member.engine.kill();
            self.count_stats(&member.engine.stats());
        }
    }
}
