//! The outside world: counts every entry into the code of a step, and judges whether it may be entered now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hapax_engine::ctx::Attempt;
use hapax_engine::model::{Asked, Fence, RunId, WorkspaceId};
use hapax_engine::store::Store;

use serde_json::Value;

use super::node::Node;
use super::watch::at_once;
use super::world::World;

#[derive(Default)]
pub struct Sink {
    effects: Mutex<BTreeMap<String, Effect>>,
    received: Mutex<BTreeMap<String, u32>>,
}

/// All that happened under one effect key.
#[derive(Default)]
struct Effect {
    entries: u32,
    /// How many are inside now, by the fence they entered under.
    inside: BTreeMap<Fence, u32>,
    succeeded: bool,
    /// What it gave.
    output: Option<Value>,
    /// How often it happened.
    times: u32,
    /// Entries that are known not to have happened.
    denied: u32,
}

/// What a provider knows of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Truth {
    Happened(Value),
    DidNotHappen,
    /// Somebody is still inside: it may yet happen.
    Open,
}

/// Somebody is inside the code of a step for as long as this lives.
pub struct Inside {
    world: Arc<World>,
    node: Arc<Node>,
    key: String,
    fence: Fence,
    /// Which entry under this key it is, from 1.
    pub entry: u32,
}

impl Sink {
    pub fn succeeded(&self, key: &str) -> bool {
        self.effects.lock().unwrap().get(key).is_some_and(|effect| effect.succeeded)
    }

    /// A claimed effect is about to be entered: it may not be, unless all entries before are known not to have happened.
    pub fn check_claim(&self, world: &World, run: RunId, key: &str) {
        let open = self.effects.lock().unwrap().get(key).map_or(0, |effect| effect.entries - effect.denied);
        // People who retry a run take it upon themselves.
        if open > 0 && world.with_watch(|watch| watch.retries(run)) == 0 {
            world.break_off(format!(
                "claimed effect {key} is entered again, though {open} entries may have happened"
            ));
        }
    }

    pub fn truth(&self, key: &str) -> Truth {
        let effects = self.effects.lock().unwrap();
        match effects.get(key) {
            None => Truth::DidNotHappen,
            Some(effect) => match &effect.output {
                Some(output) => Truth::Happened(output.clone()),
                None if effect.inside.values().any(|inside| *inside > 0) => Truth::Open,
                None => Truth::DidNotHappen,
            },
        }
    }

    /// Somebody who knows says that it has not happened so far.
    pub fn deny(&self, key: &str) {
        if let Some(effect) = self.effects.lock().unwrap().get_mut(key) {
            effect.denied = effect.entries;
        }
    }

    pub fn receive(&self, id: &str) {
        *self.received.lock().unwrap().entry(id.to_string()).or_default() += 1;
    }

    pub fn is_received(&self, id: &str) -> bool {
        self.received.lock().unwrap().contains_key(id)
    }

    pub fn entries(&self) -> u64 {
        self.effects.lock().unwrap().values().map(|effect| u64::from(effect.entries)).sum()
    }
}

/// A step's code begins. Judged at this very instant, whatever the node does next.
pub fn enter(world: &Arc<World>, node: &Arc<Node>, run: RunId, attempt: &Attempt, most: u32) -> Inside {
    let key = attempt.idempotency_key().to_string();
    let shown = key.split_once(':').map_or(key.clone(), |(_, step)| format!("{} {step}", world.name(run)));
    world.log(&node.name, &format!("enters {shown}, attempt {}", attempt.number()));
    let view = at_once(world.store.find_run(&WorkspaceId::default(), run));
    let head = view.as_ref().map(|view| view.head.clone());
    let lease = head.as_ref().and_then(|head| head.state.lease());
    let fence = head.as_ref().map_or(Fence::default(), |head| head.fence);
    let is_its_own = lease.is_some_and(|lease| Some(&lease.owner) == node.owner.get());
    if !is_its_own || lease.is_none_or(|lease| lease.until <= world.store.now()) {
        let state = head.as_ref().map(|head| head.state);
        world.break_off(format!(
            "invariant 21: {} enters {shown} without a living lease of its own; the run is {state:?} at {}",
            node.name,
            world.store.now().as_millis()
        ));
    }
    if let Some(view) = &view
        && !key.ends_with("~undo")
        && !view.input.as_str().contains("Shield")
    {
        let past_deadline = view.head.facts.deadline_at.is_some_and(|at| at <= world.store.now());
        let is_cancelled = world.with_watch(|watch| watch.is_known_to_be_cancelled(run, fence));
        if past_deadline || (is_cancelled && view.head.asked == Asked::Cancel) {
            world.break_off(format!("invariant 45: {shown} begins, though the run was to end"));
        }
    }
    if node.is_dead() {
        world.break_off(format!("{} enters {shown} after its death", node.name));
    }
    if attempt.number() > most {
        world.break_off(format!(
            "invariant 35: {shown} is tried for the {}th time of {most}",
            attempt.number()
        ));
    }
    let retries = world.with_watch(|watch| watch.retries(run));
    let entry = world.sink.note_entry(&key, fence);
    let entry = match entry {
        Ok(entry) => entry,
        Err(entry) => {
            world.break_off(format!("{shown} is entered twice at once under fence {fence}"));
            entry
        }
    };
    // People begin a new count. A step that may be tried once is tried once; of others, a crash may hide a try.
    let hidden = if most == 1 { 0 } else { fence.get() as u32 };
    if entry > (1 + retries) * most + hidden {
        world.break_off(format!(
            "invariant 35: {shown} is entered for the {entry}th time; {most} tries are allowed"
        ));
    }
    Inside { world: world.clone(), node: node.clone(), key, fence, entry }
}

impl Sink {
    /// Counts an entry; as an error if somebody is inside under the same fence.
    fn note_entry(&self, key: &str, fence: Fence) -> Result<u32, u32> {
        let mut effects = self.effects.lock().unwrap();
        let effect = effects.entry(key.to_string()).or_default();
        effect.entries += 1;
        let inside = effect.inside.entry(fence).or_default();
        *inside += 1;
        match *inside {
            1 => Ok(effect.entries),
            _ => Err(effect.entries),
        }
    }
}

impl Inside {
    /// The effect has happened, and its code says so.
    pub fn succeed(&self, output: Value) {
        if let Some(effect) = self.world.sink.effects.lock().unwrap().get_mut(&self.key) {
            effect.succeeded = true;
            effect.output = Some(output);
            effect.times += 1;
        }
    }

    /// It has not happened; its code may say so, or not be sure.
    pub fn fail(&self, is_sure: bool) {
        if is_sure && let Some(effect) = self.world.sink.effects.lock().unwrap().get_mut(&self.key) {
            effect.denied += 1;
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.world.log(&self.node.name, "leaves");
        if let Some(effect) = self.world.sink.effects.lock().unwrap().get_mut(&self.key)
            && let Some(inside) = effect.inside.get_mut(&self.fence)
        {
            *inside -= 1;
        }
    }
}
