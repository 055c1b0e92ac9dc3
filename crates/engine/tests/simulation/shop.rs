//! Orders: entities that several callers change at once, through nodes that crash and stop in the middle of an action.
//! Janitors revert abandoned operations or leave them to people. One step is unclaimed, so that callers act
//! concurrently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use hapax_engine::model::{
    Action, Actor, ClaimTo, EntityStep, EntityWorkflow, LedgerEntry, Name, Operation, OperationState,
    OperationStatus, PerRequester, Recovery, Resolution, Role, Ruling, WorkspaceId,
};
use hapax_engine::runtime::{ActionAnswer, CodeOnlyHost, StepCall, TransitionOutcome};
use hapax_engine::store::{EntityStore, ListEntities, ListOperations};
use hapax_engine::{Engine, Error, Failure};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::fleet::Fleet;
use super::node::Node;
use super::provider::{ProviderRecord, RequestHandling};
use super::rule::Rule;
use super::watch::at_once;
use super::world::World;

const KIND: &str = "order";
const MODULE: &str = "sales";
/// Its provider honours keys; after a crash the claim is reverted.
const PAY: &str = "pay";
/// Its provider does not honour keys; after a crash a person decides.
const REFUND: &str = "refund";
/// It is unclaimed, so several operations may run at once. Its provider honours keys.
const REMIND: &str = "remind";
const MOST_TRIES: u32 = 4;

/// Registers the order workflow with `engine`.
pub fn open(engine: &Engine, world: &Arc<World>, node: &Arc<Node>) {
    for step in [PAY, REFUND, REMIND] {
        let (world, node) = (world.clone(), node.clone());
        let code = move |call: StepCall| act(world.clone(), node.clone(), call);
        engine.register_action(step, code).expect("a fresh engine knows no action");
    }
    let claim = |into, revert_to| ClaimTo::new(into, revert_to).expect("sound names");
    let step = |id, key, from: &str, to: &str, claim| {
        let step = EntityStep::new(id, key, &[from], to).expect("sound names").claiming(claim);
        step.doing(Action::handler(key).expect("a sound name"))
    };
    let refund = EntityStep {
        recovery: Some(PerRequester::All(Recovery::Hold)),
        idempotent: Some(PerRequester::All(false)),
        ..step(20, REFUND, "paid", "refunded", claim("refunding", "paid"))
    };
    let statuses = ["new", "paying", "paid", "refunding", "refunded"];
    let workflow = EntityWorkflow::new("orders", MODULE, KIND, &statuses).expect("sound names");
    let remind = EntityStep::new(30, REMIND, &["paid"], "paid").expect("sound names");
    let remind = remind.doing(Action::handler(REMIND).expect("a sound name"));
    let steps = vec![step(10, PAY, "new", "paid", claim("paying", "new")), refund, remind];
    let workflow = EntityWorkflow { steps, ..workflow };
    let registered = engine.register_entity_workflow(workflow, Arc::new(CodeOnlyHost));
    registered.now_or_never().expect("its entities live in the store").expect("the workflow is sound");
    let lease_for = world.settings.lease_for;
    engine.module(MODULE).janitor(lease_for, lease_for * 2).expect("a fresh engine has no janitor");
}

/// The code of all actions.
async fn act(world: Arc<World>, node: Arc<Node>, call: StepCall) -> Result<ActionAnswer, Failure> {
    let key = call.idempotency_key().to_string();
    let shown = format!("{} of {} #{}", call.step, call.entity.entity, call.attempt);
    world.log(&node.name, &format!("enters {shown}"));
    let honours_key = call.step.as_str() != REFUND;
    let _inside = world.provider.enter_action(&world, &key, Some(call.fence), honours_key);
    world.may_pause(&node).await;
    call.ensure_still_held()?;
    let found = at_once(EntityStore::find_operation(&world.store, &call.workspace, call.operation));
    let is_held = found.as_ref().is_some_and(|operation| {
        matches!(operation.state, OperationState::Pending { .. })
            && operation.attempt == call.attempt
            && Some(&operation.owner) == node.owner.get()
    });
    if !is_held {
        world.expect(Rule::StaleActionNeverSends, || {
            format!("{} sends {shown} without a claim: {found:?}", node.name)
        });
    }
    let (answer, happens) = world.roll(|dice| match dice.u32(0..10) {
        0 => ("refused", false),
        1 => ("not now", false),
        2 => ("lost", true),
        3 => ("lost", false),
        _ => ("done", true),
    });
    // A provider that honours keys repeats its recorded answer.
    let is_repeat = honours_key && world.provider.has_happened(&key);
    let (answer, happens) = if world.is_calm() || is_repeat { ("done", true) } else { (answer, happens) };
    let longest = if world.chance(4) { Duration::from_millis(1_500) } else { Duration::from_millis(50) };
    let treatment =
        RequestHandling { happens, works_for: world.span(longest), answers_after: world.span(longest) };
    let answered = world.work_on(&key, &shown, treatment, Value::Null);
    answered.await.map_err(|_| Failure::unknown("the provider vanished"))?;
    world.may_pause(&node).await;
    match answer {
        "done" => ActionAnswer::done("done"),
        "refused" => Ok(ActionAnswer::rejected("no")),
        "not now" => Err(Failure::retryable("not now")),
        _ => Err(Failure::unknown("the answer was lost")),
    }
}

/// All orders of one simulation, with the callers that change them.
pub struct Shop {
    world: Arc<World>,
    fleet: Arc<Fleet>,
    /// Callers still at work.
    callers: AtomicUsize,
    /// Operations that a caller saw complete.
    told_done: Mutex<BTreeMap<String, Operation>>,
}

impl Shop {
    /// Starts the callers.
    pub fn launch(world: &Arc<World>, fleet: &Arc<Fleet>) -> Arc<Self> {
        let (orders, callers) = world.roll(|dice| (dice.usize(1..=3), dice.usize(1..=3)));
        let shop = Arc::new(Shop {
            world: world.clone(),
            fleet: fleet.clone(),
            callers: AtomicUsize::new(orders * callers),
            told_done: Mutex::default(),
        });
        for order in 0..orders {
            for caller in 0..callers {
                let shop = shop.clone();
                tokio::spawn(async move {
                    shop.call(format!("order-{order}"), caller).await;
                    shop.callers.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
        shop
    }

    /// Number of unfinished callers and operations.
    pub fn open(&self) -> usize {
        let open = |operation: &Operation| !operation.state.status().has_ended();
        self.callers.load(Ordering::Relaxed) + self.operations().into_iter().filter(open).count()
    }

    fn operations(&self) -> Vec<Operation> {
        let all = ListOperations {
            workspace: WorkspaceId::default(),
            kind: None,
            entity: None,
            step: None,
            status: None,
            before: None,
            limit: usize::MAX,
        };
        at_once(EntityStore::list_operations(&self.world.store, all))
    }

    /// Creates the order if it is not there, pays it, and has it refunded.
    async fn call(&self, order: String, caller: usize) {
        let world = &self.world;
        sleep(world.span(world.settings.storm / 2)).await;
        loop {
            let Some(member) = self.fleet.any() else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            match member.engine.create_entity(KIND, &order, "new", &json!({})).await {
                Ok(_) => break,
                Err(Error::Store(error)) if error.is_retryable() => {}
                Err(error) => return world.break_off(format!("{order} cannot be created: {error}")),
            }
            sleep(world.span(Duration::from_millis(200))).await;
        }
        self.take(&order, PAY, caller).await;
        if world.chance(2) {
            self.take(&order, REMIND, caller).await;
        }
        sleep(world.span(Duration::from_millis(500))).await;
        self.take(&order, REFUND, caller).await;
    }

    /// Repeats a step until it is done, does not apply, or was tried often enough. Each attempt has its own key, and
    /// the caller asks under that key until the outcome is known.
    async fn take(&self, order: &str, step: &str, caller: usize) {
        let world = &self.world;
        let mut tries = 0;
        while tries < MOST_TRIES {
            sleep(world.span(Duration::from_millis(300))).await;
            let Some(member) = self.fleet.any() else { continue };
            let key = format!("{order}-{step}-{caller}-{tries}");
            let impatience = world.span(world.settings.lease_for * 3);
            let asked = member.engine.transition(KIND, order, step).idempotency_key(key);
            let asked = tokio::select! {
                biased;
                () = member.node.death() => continue,
                asked = timeout(impatience, asked.into_future()) => asked,
            };
            let Ok(outcome) = asked else { continue };
            match outcome {
                Ok(TransitionOutcome::Done { operation, .. }) => {
                    self.told_done.lock().unwrap().insert(operation.id.to_string(), *operation);
                    world.count(|tally| tally.steps_done += 1);
                    return;
                }
                Ok(TransitionOutcome::Rejected { .. } | TransitionOutcome::Failed { .. }) => tries += 1,
                Ok(TransitionOutcome::NotAllowed { .. } | TransitionOutcome::OverrideRequired { .. }) => {
                    return;
                }
                Ok(TransitionOutcome::ClaimFailed { .. }) => world.count(|tally| tally.claims_lost += 1),
                Ok(TransitionOutcome::Pending { .. } | TransitionOutcome::InDoubt { .. }) => {}
                Ok(TransitionOutcome::KeyConflict { existing }) => {
                    return world.break_off(format!("a key of {order} stands for {existing:?}"));
                }
                Err(Error::Store(error)) if error.is_retryable() => {}
                Err(Error::ShuttingDown | Error::EntityBusy(_)) => {}
                Err(error) => return world.break_off(format!("{step} of {order}: {error}")),
            }
        }
    }

    /// The ledger of entities agrees with the provider, key by key.
    async fn check_ledger(&self, operations: &[Operation]) -> Result<(), String> {
        let entities: BTreeSet<String> =
            operations.iter().map(|operation| operation.entity.id.to_string()).collect();
        let mut ledger = Vec::new();
        for entity in entities {
            ledger.extend(self.build_ledger(&entity).await?);
        }
        for operation in operations {
            let key = operation.effect_key().to_string();
            let saw = self.world.provider.account(&key).carried_out;
            let entries: Vec<&LedgerEntry> = ledger.iter().filter(|entry| entry.key == key).collect();
            let [entry] = entries[..] else {
                return Err(format!("{key} has {} entries in the ledger", entries.len()));
            };
            let (known, open) = (entry.happened, entry.may_have_happened);
            if saw < known || saw > known + open {
                self.world.expect(Rule::EntityEffectsCounted, || {
                    format!("{key} happened {saw} times; the ledger knows of {known}, and of {open} that may have: {entry:?}")
                });
            }
        }
        Ok(())
    }

    /// The ledger of an order. Asks again if the node is still cut off.
    async fn build_ledger(&self, order: &str) -> Result<Vec<LedgerEntry>, String> {
        loop {
            let Some(member) = self.fleet.any() else { return Err("no node is left to ask".into()) };
            match member.engine.ledger_of_entity(KIND, order).await {
                Ok(ledger) => return Ok(ledger),
                Err(Error::Store(error)) if error.is_retryable() => sleep(Duration::from_millis(200)).await,
                Err(error) => return Err(format!("the ledger of {order}: {error}")),
            }
        }
    }

    /// Resolves doubts as people would, with the provider's facts.
    pub async fn attend(self: Arc<Self>) {
        loop {
            sleep(self.world.span(Duration::from_millis(400))).await;
            let in_doubt = |operation: &Operation| operation.state.status() == OperationStatus::InDoubt;
            for operation in self.operations().into_iter().filter(in_doubt) {
                let resolution = match self.world.provider.truth(operation.effect_key().as_str()) {
                    ProviderRecord::Happened(output) => Resolution::Happened { output },
                    ProviderRecord::DidNotHappen => Resolution::DidNotHappen,
                    ProviderRecord::Open => continue,
                };
                let Some(member) = self.fleet.any() else { continue };
                let by = Actor::new("ada", Role::Manager);
                let ruling = Ruling { resolution, by, seconded_by: None, reason: "so it is".into() };
                let ruled = member.engine.resolve_operation(operation.id, operation.attempt, ruling);
                match timeout(self.world.settings.lease_for, ruled).await {
                    Err(_)
                    | Ok(Err(
                        Error::Store(_)
                        | Error::OperationNotInDoubt(_)
                        | Error::OperationResolved { .. }
                        | Error::EntityBusy(_),
                    )) => {}
                    Ok(Ok(_)) => self.world.count(|tally| tally.operations_ruled += 1),
                    Ok(Err(error)) => {
                        return self.world.break_off(format!("ruling on {}: {error}", operation.id));
                    }
                }
            }
        }
    }

    /// Compares the final state with what the provider saw.
    pub async fn check(&self) -> Result<(), String> {
        let operations = self.operations();
        self.check_ledger(&operations).await?;
        for (id, told) in self.told_done.lock().unwrap().iter() {
            let stands = operations.iter().find(|operation| operation.id == told.id);
            if stands.is_none_or(|stands| stands.state.status() != OperationStatus::Done) {
                return Err(format!("{id} was told to be done, and is {stands:?}"));
            }
        }
        for operation in &operations {
            let (key, status) = (operation.effect_key(), operation.state.status());
            let times = self.world.provider.account(key.as_str()).times;
            // An operation that was rejected or failed, and leaves no doubt, is evidence about every attempt under its
            // key up to its own. An operation that a person reverted may be retried after it, under the same key.
            let is_tried_again = operations.iter().any(|other| {
                let may_have = other.state.status() == OperationStatus::Done || other.leaves_doubt();
                other.id != operation.id && other.effect_key() == key && may_have
            });
            let is_known_not_to_have = match &operation.state {
                OperationState::Rejected { .. } | OperationState::Failed { .. } => {
                    !is_tried_again && !operation.leaves_doubt()
                }
                _ => false,
            };
            if (status == OperationStatus::Done && times == 0) || (is_known_not_to_have && times > 0) {
                return Err(format!("{key} is {}, and happened {times} times", status.as_str()));
            }
        }
        let all = ListEntities {
            workspace: WorkspaceId::default(),
            kind: Name::new("entity type", KIND).expect("a sound name"),
            home: hapax_engine::model::EntityStorage::BuiltIn,
            status: None,
            after: None,
            limit: usize::MAX,
        };
        for entity in at_once(EntityStore::list_entities(&self.world.store, all)) {
            if ["paying", "refunding"].contains(&entity.status.as_str()) {
                return Err(format!("{} is left {}", entity.entity, entity.status));
            }
            for step in [PAY, REFUND] {
                let of_step = |operation: &&Operation| {
                    operation.entity == entity.entity && operation.step.as_str() == step
                };
                let keys: BTreeSet<String> = operations
                    .iter()
                    .filter(of_step)
                    .map(|operation| operation.effect_key().to_string())
                    .collect();
                let times: Vec<u32> = keys
                    .iter()
                    .map(|key| self.world.provider.account(key).times)
                    .filter(|times| *times > 0)
                    .collect();
                if times.iter().sum::<u32>() > 1 {
                    self.world.expect(Rule::EntityEffectOnce, || {
                        format!(
                            "{step} of {} happened under {} keys, {times:?} times",
                            entity.entity,
                            times.len()
                        )
                    });
                }
            }
        }
        Ok(())
    }
}
