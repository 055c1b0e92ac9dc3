//! The external provider. It works slowly, loses answers, charges and then fails, and answers a lookup with what it has
//! done so far. It counts every effect, and checks each entry into a step's code and each request at the moment it
//! happens.

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

/// Everything that happened under one effect key.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The effect key.
    pub key: String,
    /// Run and generation of the effect, once its code was entered.
    pub run: Option<RunId>,
    pub generation: Generation,
    /// Number of times the code of the step was entered.
    pub entries: u32,
    /// Attempt numbers, for the action of an operation.
    tries: BTreeSet<u64>,
    /// Number of executions inside the code, by the fence they entered under.
    inside: BTreeMap<Fence, u32>,
    /// Requests that have arrived and are not finished.
    pub working: u32,
    /// Times the effect happened.
    pub times: u32,
    /// Requests that were executed, or answered with the result of an earlier one.
    pub carried_out: u32,
    /// Output of the first request.
    output: Option<Value>,
    /// Entries that are known not to have happened.
    denied: u32,
    /// True if it must not happen twice.
    is_claimed: bool,
    /// True if the provider answers a second request under the key with the result of the first.
    honours_key: bool,
    /// True if the effect has a compensation.
    pub can_be_undone: bool,
}

/// State of an effect at the provider, for people who check there.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderRecord {
    Happened(Value),
    DidNotHappen,
    /// An execution is inside the code, or the provider works on it: it may still happen.
    Open,
}

/// The provider's treatment of one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHandling {
    /// True if the effect happens.
    pub happens: bool,
    /// Time the provider works on it, whether or not the caller waits.
    pub works_for: Duration,
    /// Delay until the answer arrives.
    pub answers_after: Duration,
}

/// Guard of one execution inside a step's code; dropping it leaves the code.
pub struct ExecutionGuard {
    world: Arc<World>,
    node: Arc<Node>,
    run: RunId,
    key: String,
    fence: Fence,
    /// Number of this entry under its key, from 1.
    pub entry: u32,
}

impl Provider {
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.accounts.lock().unwrap();
        let new = || Account { key: key.to_string(), ..Account::default() };
        change(accounts.entry(key.to_string()).or_insert_with(new))
    }

    /// Everything that happened under a key.
    pub fn account(&self, key: &str) -> Account {
        self.accounts.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    pub fn has_happened(&self, key: &str) -> bool {
        self.account(key).times > 0
    }

    /// All accounts, ordered by key.
    pub fn accounts(&self) -> Vec<Account> {
        self.accounts.lock().unwrap().values().cloned().collect()
    }

    /// Notes that the effect has a compensation.
    pub fn can_be_undone(&self, key: &str) {
        self.with(key, |account| account.can_be_undone = true);
    }

    /// Checks that a claimed effect about to be entered is known not to have happened before.
    pub fn check_claim(&self, world: &World, key: &str) {
        let open = self.with(key, |account| {
            account.is_claimed = true;
            account.entries - account.denied
        });
        // A manager who allows a repetition accepts responsibility for it.
        let allowed = world.with_watch(|watch| watch.repeats(key));
        if open > allowed {
            world.break_off(format!(
                "claimed effect {key} is entered again, though {open} entries may have happened"
            ));
        }
    }

    pub fn truth(&self, key: &str) -> ProviderRecord {
        let account = self.account(key);
        match account.output {
            Some(output) => ProviderRecord::Happened(output),
            None if account.working > 0 || account.inside.values().any(|inside| *inside > 0) => {
                ProviderRecord::Open
            }
            None => ProviderRecord::DidNotHappen,
        }
    }

    /// Answers a lookup by key. The answer is also `None` while the provider still works on it.
    pub fn look_up(&self, key: &str) -> Option<Value> {
        self.account(key).output
    }

    /// Records a ruling that the effect has not happened so far.
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

    /// Enters the code of an entity's action; dropping the answer leaves it. `number` is the attempt's number under its
    /// key, if attempts are numbered.
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

    /// Counts an entry; returns an error if another execution is inside under the same fence.
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

/// The run as stored, if `node` holds a live lease on it.
fn held_by(world: &World, node: &Node, run: RunId) -> Result<RunView, Option<RunHead>> {
    let view = at_once(world.store.find_run(&WorkspaceId::default(), run)).ok_or(None)?;
    let lease = view.head.state.lease();
    let is_its_own = lease.is_some_and(|lease| Some(&lease.owner) == node.owner.get());
    match is_its_own && lease.is_some_and(|lease| lease.until > world.store.now()) {
        true => Ok(view),
        false => Err(Some(view.head)),
    }
}

/// Enters a step's code. Checks at this very moment, whatever the node does next.
pub fn enter(
    world: &Arc<World>,
    node: &Arc<Node>,
    run: RunId,
    attempt: &Attempt,
    most: u32,
) -> ExecutionGuard {
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
        // A compensable effect is retried until its outcome is known; only then is it undone.
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
    // A retry of the run continues the attempt count, and allows as many attempts again.
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
    // A ruling starts a new count. A step with one attempt is tried once; for others, a crash may hide an attempt.
    let hidden = if most == 1 { 0 } else { fence.get() as u32 };
    if entry > (1 + retries) * most + hidden {
        world.break_off(format!(
            "invariant 35: {shown} is entered for the {entry}th time; {most} tries are allowed"
        ));
    }
    ExecutionGuard { world: world.clone(), node: node.clone(), run, key, fence, entry }
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

impl ExecutionGuard {
    /// Sends the first byte of the request. The provider works on it from now on, whatever happens to the caller; the
    /// answer reports that it is done.
    pub fn send(&self, treatment: RequestHandling, output: Value) -> oneshot::Receiver<()> {
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

    /// Records that this entry had no effect.
    pub fn deny(&self) {
        self.world.provider.with(&self.key, |account| account.denied += 1);
    }
}

/// Guard of one execution inside an entity's action; dropping it leaves the code.
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
    /// Delivers a request to the provider, which works on it whatever happens to the caller. The answer reports that it
    /// is done.
    pub fn work_on(
        self: &Arc<Self>,
        key: &str,
        shown: &str,
        treatment: RequestHandling,
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
            // The caller may be gone.
            let _ = answer.send(());
        };
        match treatment.works_for.is_zero() && treatment.answers_after.is_zero() {
            true => futures_util::FutureExt::now_or_never(works).expect("it waits for nothing"),
            false => drop(tokio::spawn(works)),
        }
        answered
    }

    /// Finishes a request.
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

impl Drop for ExecutionGuard {
    fn drop(&mut self) {
        self.world.log(&self.node.name, "leaves");
        self.world.provider.with(&self.key, |account| {
            if let Some(inside) = account.inside.get_mut(&self.fence) {
                *inside -= 1;
            }
        });
    }
}

/// Failure of an effect without a usable answer.
pub fn no_answer() -> Failure {
    Failure::unknown("the provider did not answer").with_code("planned")
}
