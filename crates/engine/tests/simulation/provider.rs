//! The provider outside. It works slowly, loses answers, charges and then fails, and answers a lookup with what it has done
//! so far. It counts every effect, and judges each entry into a step's code and each request at the instant it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_engine::Failure;
use hapax_engine::ctx::Attempt;
use hapax_engine::model::{Fence, Generation, PendingRequest, RunHead, RunId, WorkspaceId};
use hapax_engine::store::{RunView, Store};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::node::Node;
use super::rule::Rule;
use super::watch::at_once;
use super::world::World;

#[derive(Default)]
pub struct Provider {
    accounts: Mutex<BTreeMap<String, Account>>,
    deliveries: Mutex<BTreeMap<String, u32>>,
}

/// All that happened under one effect key.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The effect key.
    pub key: String,
    /// The run and its generation that the effect belongs to, once its code was entered.
    pub run: Option<RunId>,
    pub generation: Generation,
    /// Times the code of the step was entered.
    pub entries: u32,
    /// The numbers of its tries, if it is the action of an operation.
    tries: BTreeSet<u64>,
    /// How many are inside the code now, by the fence they entered under.
    inside: BTreeMap<Fence, u32>,
    /// Requests that have arrived and are not finished.
    pub working: u32,
    /// Times the effect happened.
    pub times: u32,
    /// Requests that were carried out, or answered with what an earlier one had done.
    pub carried_out: u32,
    /// What it gave the first time.
    output: Option<Value>,
    /// Entries that are known not to have happened.
    denied: u32,
    /// Must it not happen twice?
    is_claimed: bool,
    /// Does the provider answer a second request under the key with what it did for the first?
    honours_key: bool,
    /// Is there code that undoes it?
    pub can_be_undone: bool,
}

/// What is true of an effect, for people who look long enough.
#[derive(Debug, Clone, PartialEq)]
pub enum Truth {
    Happened(Value),
    DidNotHappen,
    /// Somebody is inside the code, or the provider works on it: it may yet happen.
    Open,
}

/// What the provider does with one request.
#[derive(Debug, Clone, Copy)]
pub struct Treatment {
    /// Does the effect happen?
    pub happens: bool,
    /// How long the provider works on it, with the caller or without.
    pub works_for: Duration,
    /// How much later the answer arrives.
    pub answers_after: Duration,
}

/// Somebody is inside the code of a step for as long as this lives.
pub struct Inside {
    world: Arc<World>,
    node: Arc<Node>,
    run: RunId,
    key: String,
    fence: Fence,
    /// Which entry under this key it is, from 1.
    pub entry: u32,
}

impl Provider {
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.accounts.lock().unwrap();
        let new = || Account { key: key.to_string(), ..Account::default() };
        change(accounts.entry(key.to_string()).or_insert_with(new))
    }

    /// What happened under a key.
    pub fn account(&self, key: &str) -> Account {
        self.accounts.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    pub fn has_happened(&self, key: &str) -> bool {
        self.account(key).times > 0
    }

    /// Every account, in the order of keys.
    pub fn accounts(&self) -> Vec<Account> {
        self.accounts.lock().unwrap().values().cloned().collect()
    }

    /// There is code that undoes the effect.
    pub fn can_be_undone(&self, key: &str) {
        self.with(key, |account| account.can_be_undone = true);
    }

    /// Checks that a claimed effect about to be entered is known not to have happened before.
    pub fn check_claim(&self, world: &World, key: &str) {
        let open = self.with(key, |account| {
            account.is_claimed = true;
            account.entries - account.denied
        });
        // A manager who allows it to happen again takes it upon themselves.
        let allowed = world.with_watch(|watch| watch.repeats(key));
        if open > allowed {
            world.break_off(format!(
                "claimed effect {key} is entered again, though {open} entries may have happened"
            ));
        }
    }

    pub fn truth(&self, key: &str) -> Truth {
        let account = self.account(key);
        match account.output {
            Some(output) => Truth::Happened(output),
            None if account.working > 0 || account.inside.values().any(|inside| *inside > 0) => Truth::Open,
            None => Truth::DidNotHappen,
        }
    }

    /// Answers a lookup by key: `None` also while the provider still works on it.
    pub fn look_up(&self, key: &str) -> Option<Value> {
        self.account(key).output
    }

    /// Records that somebody believes the effect not to have happened so far.
    pub fn deny(&self, key: &str) {
        self.with(key, |account| account.denied = account.entries);
    }

    pub fn receive(&self, id: &str) {
        *self.deliveries.lock().unwrap().entry(id.to_string()).or_default() += 1;
    }

    pub fn is_received(&self, id: &str) -> bool {
        self.deliveries.lock().unwrap().contains_key(id)
    }

    pub fn entries(&self) -> u64 {
        self.accounts.lock().unwrap().values().map(|account| u64::from(account.entries)).sum()
    }

    /// The code of an entity's action begins; it is left when the answer is dropped. `number` is that of the try under
    /// its key, if tries are numbered.
    pub fn enter_action(
        &self,
        world: &Arc<World>,
        key: &str,
        number: Option<u64>,
        honours_key: bool,
    ) -> ActionEntered {
        let is_new = self.with(key, |account| {
            account.entries += 1;
            account.honours_key = honours_key;
            *account.inside.entry(Fence::default()).or_default() += 1;
            number.is_none_or(|number| account.tries.insert(number))
        });
        if !is_new {
            world.expect(Rule::EntityTriesNumbered, || {
                format!("try {number:?} of {key} is made a second time")
            });
        }
        ActionEntered { world: world.clone(), key: key.to_string() }
    }

    /// Counts an entry; as an error if somebody is inside under the same fence.
    fn note_entry(&self, key: &str, place: (RunId, Generation), fence: Fence) -> Result<u32, u32> {
        self.with(key, |account| {
            (account.run, account.generation) = (Some(place.0), place.1);
            account.entries += 1;
            let inside = account.inside.entry(fence).or_default();
            *inside += 1;
            match *inside {
                1 => Ok(account.entries),
                _ => Err(account.entries),
            }
        })
    }
}

/// Short name of an effect for the trace.
fn shown(world: &World, run: RunId, key: &str) -> String {
    key.split_once(':').map_or(key.to_string(), |(_, step)| format!("{} {step}", world.name(run)))
}

/// The run as the store has it now, if `node` holds a living lease on it.
fn held_by(world: &World, node: &Node, run: RunId) -> Result<RunView, Option<RunHead>> {
    let view = at_once(world.store.find_run(&WorkspaceId::default(), run)).ok_or(None)?;
    let lease = view.head.state.lease();
    let is_its_own = lease.is_some_and(|lease| Some(&lease.owner) == node.owner.get());
    match is_its_own && lease.is_some_and(|lease| lease.until > world.store.now()) {
        true => Ok(view),
        false => Err(Some(view.head)),
    }
}

/// A step's code begins. Judged at this very instant, whatever the node does next.
pub fn enter(world: &Arc<World>, node: &Arc<Node>, run: RunId, attempt: &Attempt, most: u32) -> Inside {
    let key = attempt.idempotency_key().to_string();
    let shown = shown(world, run, &key);
    world.log(&node.name, &format!("enters {shown}, attempt {}", attempt.number()));
    let held = held_by(world, node, run);
    if let Err(head) = &held {
        world.break_off(format!(
            "invariant 21: {} enters {shown} without a living lease of its own; the run is {:?} at {}",
            node.name,
            head.as_ref().map(|head| head.state),
            world.store.now().as_millis()
        ));
    }
    let fence = held.as_ref().map_or(Fence::default(), |view| view.head.fence);
    if let Ok(view) = &held
        && !key.ends_with("~undo")
        && !view.input.as_str().contains("Shield")
    {
        let past_deadline = view.head.facts.deadline_at.is_some_and(|at| at <= world.store.now());
        let is_cancelled = world.with_watch(|watch| watch.is_known_to_be_cancelled(run, fence));
        // What can be undone is tried again until it is known whether it happened; only then is it undone.
        let is_settled_first =
            attempt.number() > 1 && world.provider.with(&key, |account| account.can_be_undone);
        if !is_settled_first && (past_deadline || (is_cancelled && view.head.asked == PendingRequest::Cancel))
        {
            world.break_off(format!("invariant 45: {shown} begins, though the run was to end"));
        }
    }
    if node.is_dead() {
        world.break_off(format!("{} enters {shown} after its death", node.name));
    }
    // Attempts are counted on when a run is retried, and each time it may be tried as often again.
    let allowed = most * (1 + world.with_watch(|watch| watch.retries(run)));
    if attempt.number() > allowed {
        world.break_off(format!(
            "invariant 35: {shown} is tried for the {}th time of {allowed}",
            attempt.number()
        ));
    }
    let retries = world.with_watch(|watch| watch.retries(run));
    let generation = held.as_ref().map_or(Generation::default(), |view| view.head.generation);
    let entry = match world.provider.note_entry(&key, (run, generation), fence) {
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
    Inside { world: world.clone(), node: node.clone(), run, key, fence, entry }
}

/// A probe asks about an effect.
pub fn ask(world: &World, node: &Node, run: RunId, key: &str) {
    if held_by(world, node, run).is_err() {
        let shown = shown(world, run, key);
        world.expect(Rule::StaleHolderNeverSends, || {
            format!("{} asks about {shown} without a living lease of its own", node.name)
        });
    }
}

impl Inside {
    /// The first byte of the request leaves. The provider works on it from now on, whatever becomes of the caller; the answer
    /// says that it is done.
    pub fn send(&self, treatment: Treatment, output: Value) -> oneshot::Receiver<()> {
        let (world, key) = (self.world.clone(), self.key.clone());
        let shown = shown(&world, self.run, &key);
        if held_by(&world, &self.node, self.run).is_err() {
            world.expect(Rule::StaleHolderNeverSends, || {
                format!("{} sends {shown} without a living lease of its own", self.node.name)
            });
        }
        world.log(&self.node.name, &format!("sends {shown}"));
        world.work_on(&key, &shown, treatment, output)
    }

    /// The code says that this entry had no effect.
    pub fn deny(&self) {
        self.world.provider.with(&self.key, |account| account.denied += 1);
    }
}

/// Somebody is inside the code of an entity's action for as long as this lives.
pub struct ActionEntered {
    world: Arc<World>,
    key: String,
}

impl Drop for ActionEntered {
    fn drop(&mut self) {
        self.world.provider.with(&self.key, |account| {
            if let Some(inside) = account.inside.get_mut(&Fence::default()) {
                *inside -= 1;
            }
        });
    }
}

impl World {
    /// A request arrives at the provider, which works on it whatever becomes of the caller; the answer says that it is done.
    pub fn work_on(
        self: &Arc<Self>,
        key: &str,
        shown: &str,
        treatment: Treatment,
        output: Value,
    ) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        self.provider.with(key, |account| account.working += 1);
        let (world, key, shown) = (self.clone(), key.to_string(), shown.to_string());
        let works = async move {
            if !treatment.works_for.is_zero() {
                sleep(treatment.works_for).await;
            }
            world.perform(&key, &shown, treatment.happens, output);
            if !treatment.answers_after.is_zero() {
                sleep(treatment.answers_after).await;
            }
            // Nobody may be there any more.
            let _ = answer.send(());
        };
        match treatment.works_for.is_zero() && treatment.answers_after.is_zero() {
            true => futures_util::FutureExt::now_or_never(works).expect("it waits for nothing"),
            false => drop(tokio::spawn(works)),
        }
        answered
    }

    /// The provider finishes a request.
    fn perform(&self, key: &str, shown: &str, happens: bool, output: Value) {
        let (times, is_claimed) = self.provider.with(key, |account| {
            account.working -= 1;
            account.carried_out += u32::from(happens);
            if happens && !(account.honours_key && account.times > 0) {
                account.times += 1;
                account.output.get_or_insert(output);
            }
            (account.times, account.is_claimed)
        });
        if !happens {
            return;
        }
        self.log("provider", &format!("{shown} happens, {times} times now"));
        let allowed = 1 + self.with_watch(|watch| watch.repeats(key));
        if is_claimed && times > allowed {
            self.expect(Rule::ClaimedOnce, || format!("claimed effect {shown} happened {times} times"));
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.world.log(&self.node.name, "leaves");
        self.world.provider.with(&self.key, |account| {
            if let Some(inside) = account.inside.get_mut(&self.fence) {
                *inside -= 1;
            }
        });
    }
}

/// What an effect without a usable answer says.
pub fn no_answer() -> Failure {
    Failure::unknown("the provider did not answer").with_code("planned")
}
