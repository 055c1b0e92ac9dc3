//! The sessions of each simulated node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hapax_engine::model::{Name, WorkflowRef, WorkspaceId};

use super::fleet::SimulatedNode;
use super::node::Node;
use super::world::World;
use crate::{NodeTag, Workers};

pub const WORKFLOW: &str = "errand";

/// One node with its sessions.
#[derive(Clone)]
pub struct NodeSessions {
    pub node: Arc<Node>,
    pub workers: Arc<Workers>,
    pub tag: NodeTag,
}

/// The sessions of all living nodes.
pub struct SimulatedNodes {
    world: Arc<World>,
    open: Mutex<BTreeMap<NodeTag, NodeSessions>>,
    count: AtomicU64,
}

impl SimulatedNodes {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(SimulatedNodes { world: world.clone(), open: Mutex::default(), count: AtomicU64::new(0) })
    }

    /// Opens the office of a fresh node, as a server does at launch.
    pub fn open(self: &Arc<Self>, member: &SimulatedNode) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = number.to_be_bytes();
        let tag = NodeTag::from_bytes(bytes[2..].try_into().expect("six of eight"));
        let workers = Workers::new(member.engine.clone(), tag.clone());
        let workflow =
            WorkflowRef { name: Name::new("workflow", WORKFLOW).expect("a sound name"), version: 1 };
        workers.learn(&WorkspaceId::default(), &workflow).expect("a fresh engine knows no workflow");
        let office = NodeSessions { node: member.node.clone(), workers, tag: tag.clone() };
        self.open.lock().unwrap().insert(tag.clone(), office);
        let (offices, node) = (self.clone(), member.node.clone());
        tokio::spawn(async move {
            node.death().await;
            offices.open.lock().unwrap().remove(&tag);
        });
    }

    /// The office that a load balancer picks.
    pub fn any(&self) -> Option<NodeSessions> {
        let open = self.open.lock().unwrap();
        let place = match open.len() {
            0 => return None,
            count => self.world.roll(|dice| dice.usize(0..count)),
        };
        open.values().nth(place).cloned()
    }

    /// The office that has a session.
    pub fn of_session(&self, session: &str) -> Option<NodeSessions> {
        let tag = NodeTag::of_session(session).expect("offices give such ids");
        self.open.lock().unwrap().get(&tag).cloned()
    }

    /// All offices but this one.
    pub fn others(&self, tag: &NodeTag) -> Vec<NodeSessions> {
        self.open.lock().unwrap().values().filter(|office| office.tag != *tag).cloned().collect()
    }
}
