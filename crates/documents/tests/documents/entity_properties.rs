//! Random entity workflows: a workflow that passes the checks never leaves an entity stuck without a janitor, and a
//! workflow that breaks one rule is refused by that rule.

use std::collections::BTreeSet;
use std::time::Duration;

use hapax_documents::{CheckedEntity, DeclaredNames, Format, Problem, Severity, check_entity};
use hapax_engine::Failure;
use hapax_engine::model::{
    BeginFacts, BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityRef, EntityWorkflow,
    Fingerprint, FinishBy, FinishFacts, FinishOperation, FinishOperationOutcome, Name, Operation,
    OperationEnd, OperationId, OperationState, OperationStatus, OwnerId, Payload, Recovery, Timestamp,
    Version, WorkspaceId, decide_begin_operation, decide_finish_operation,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const STALE_AFTER: Duration = Duration::from_secs(300);
const REQUESTERS: [Option<&str>; 3] = [None, Some("admin"), Some("system")];

fn name(text: &str) -> Name {
    Name::new("test", text).unwrap()
}

fn check(document: &Value) -> Result<CheckedEntity, Vec<Problem>> {
    check_entity(&document.to_string(), Format::Json, &DeclaredNames::default())
}

/// How a generated step is claimed.
#[derive(Debug, Clone, Copy)]
enum Claimed {
    No,
    ByAll,
    ByAdmin,
}

/// A generated step; numbers are taken modulo the number of choices.
#[derive(Debug, Clone)]
struct StepPlan {
    from: Vec<usize>,
    to: usize,
    claimed: Claimed,
    claim: usize,
    back: usize,
    hold: bool,
    irreversible: bool,
    returns: bool,
    transaction: bool,
    by_admin_only: bool,
}

fn step_plan() -> impl Strategy<Value = StepPlan> {
    let claimed = prop_oneof![Just(Claimed::No), Just(Claimed::ByAll), Just(Claimed::ByAdmin)];
    let places = (prop::collection::vec(0usize..6, 1..3), 0usize..6, 0usize..2, 0usize..6);
    (places, claimed, any::<[bool; 5]>()).prop_map(|((from, to, claim, back), claimed, flags)| StepPlan {
        from,
        to,
        claimed,
        claim,
        back,
        hold: flags[0],
        irreversible: flags[1],
        returns: flags[2],
        transaction: flags[3],
        by_admin_only: flags[4],
    })
}

/// A valid document: claim states are named after the status they revert to, as in S1.54.
fn document(count: usize, plans: &[StepPlan]) -> Value {
    let stable = |n: usize| format!("s{}", n % count);
    let mut statuses: Vec<String> = (0..count).map(stable).collect();
    let mut steps = Vec::new();
    for (n, plan) in plans.iter().enumerate() {
        let from: BTreeSet<String> = plan.from.iter().map(|from| stable(*from)).collect();
        let (into, back) = (format!("t{}_from_{}", plan.claim, stable(plan.back)), stable(plan.back));
        let mut step = json!({
            "stepId": n,
            "stepKey": format!("step-{n}"),
            "status": from,
            "successfulState": stable(plan.to),
            "action": { "handler": "Act", "transaction": plan.transaction },
            "recovery": if plan.hold { "hold" } else { "revert" },
            "irreversible": plan.irreversible,
            "retry": if plan.returns { "returns" } else { "refused" },
        });
        match plan.claimed {
            Claimed::No => step["effect"] = json!("idempotent"),
            Claimed::ByAll => {
                step["claimState"] = json!([into, back]);
                step["effect"] = json!("non_idempotent");
            }
            Claimed::ByAdmin => {
                step["successfulClaimState"] = json!({ "admin": [into, back] });
                step["effect"] = json!({ "admin": "non_idempotent", "system": "idempotent" });
            }
        }
        if plan.by_admin_only {
            step["successfulState"] = json!({ "admin": stable(plan.to) });
        }
        if !matches!(plan.claimed, Claimed::No) && !statuses.contains(&into) {
            statuses.push(into);
        }
        steps.push(step);
    }
    json!({ "name": "random", "module": "m", "entity": "thing", "initial": "s0", "statusTypes": statuses, "steps": steps })
}

fn documents() -> impl Strategy<Value = Value> {
    (2usize..6, prop::collection::vec(step_plan(), 1..7)).prop_map(|(count, plans)| document(count, &plans))
}

/// An event in the life of an entity.
#[derive(Debug, Clone)]
enum Event {
    /// A caller requests a step. A caller that begins and sends no heartbeat has crashed.
    Ask { step: usize, requester: usize, same_key: bool },
    /// The holder of an operation, perhaps already replaced, reports the end of its action.
    Finish { operation: usize, end: usize },
    /// A holder sends a heartbeat.
    Beat { operation: usize },
    /// Time passes.
    Wait { seconds: u64 },
    /// The janitor of the module handles stale operations.
    Janitor,
    /// People resolve a doubt.
    Decide { operation: usize, done: bool },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0usize..8, 0usize..3, any::<bool>()).prop_map(|(step, requester, same_key)| Event::Ask { step, requester, same_key }),
        3 => (0usize..8, 0usize..3).prop_map(|(operation, end)| Event::Finish { operation, end }),
        1 => (0usize..8).prop_map(|operation| Event::Beat { operation }),
        2 => (1u64..400).prop_map(|seconds| Event::Wait { seconds }),
        2 => Just(Event::Janitor),
        1 => (0usize..8, any::<bool>()).prop_map(|(operation, done)| Event::Decide { operation, done }),
    ]
}

/// One entity, its operations, and the clock, as in a store.
struct World {
    workflow: EntityWorkflow,
    entity: Entity,
    operations: Vec<Operation>,
    now: Timestamp,
    asked: u128,
}

impl World {
    fn new(workflow: EntityWorkflow) -> Self {
        let entity = EntityRef { kind: workflow.entity.clone(), id: EntityId::new("1").unwrap() };
        let now = Timestamp::from_millis(1_000_000_000);
        let (status, data) = (workflow.initial[0].clone(), Payload::parse("{}").unwrap());
        let entity = Entity { entity, status, version: Version::new(1), data, updated_at: now };
        World { workflow, entity, operations: Vec::new(), now, asked: 0 }
    }

    fn ask(&mut self, step: usize, requester: usize, same_key: bool) {
        let step = &self.workflow.steps[step % self.workflow.steps.len()];
        let requester = REQUESTERS[requester].map(name);
        let Some(view) = step.view(requester.as_ref()) else { return };
        let again = self.operations.iter().rev().find(|known| known.step == step.key && same_key);
        self.asked += 1;
        let id = again.map_or(OperationId::from_u128(self.asked), |known| known.id);
        let request = BeginOperation {
            id,
            workspace: WorkspaceId::default(),
            entity: self.entity.entity.clone(),
            home: self.workflow.home.clone(),
            workflow: self.workflow.name.clone(),
            module: self.workflow.module.clone(),
            step: step.key.clone(),
            requester,
            by: None,
            key: None,
            fingerprint: Fingerprint::for_request("POST", step.key.as_str(), b""),
            input: Payload::null(),
            from: view.status,
            to: view.successful_state,
            claim: view.claim,
            transient: self.workflow.claims().into_iter().map(|claim| claim.into.clone()).collect(),
            recovery: view.recovery,
            retry: view.retry,
            irreversible: view.irreversible,
            has_effect: true,
            document: None,
            grace: Default::default(),
            overridden: None,
            seen: self.entity.version,
            run: None,
            owner: OwnerId::from_u128(self.asked),
        };
        let facts = BeginFacts {
            document: None,
            known: self.operations.iter().find(|known| known.id == id).cloned(),
            entity: Some(self.entity.clone()),
            holder: self.operations.iter().find(|known| known.holds_entity()).cloned(),
            last: self.operations.iter().rev().find(|known| known.step == request.step).cloned(),
            last_try: 0,
        };
        if let BeginOperationOutcome::Begun { operation, entity, .. } =
            decide_begin_operation(&request, facts, self.now)
        {
            self.entity = entity;
            self.operations.retain(|known| known.id != operation.id);
            self.operations.push(*operation);
        }
    }

    fn finish(&mut self, at: usize, attempt: u32, by: FinishBy, end: OperationEnd) -> bool {
        let known = self.operations[at].clone();
        let request = FinishOperation {
            workspace: known.workspace.clone(),
            operation: known.id,
            attempt,
            by,
            end,
            tries: None,
            posts: Vec::new(),
            notes: Vec::new(),
        };
        let facts = FinishFacts { operation: Some(known), entity: Some(self.entity.clone()), last_try: 0 };
        match decide_finish_operation(&request, facts, self.now).unwrap() {
            FinishOperationOutcome::Finished { operation, entity, .. } => {
                self.operations[at] = *operation;
                self.entity = entity.unwrap_or(self.entity.clone());
                true
            }
            FinishOperationOutcome::Again(_)
            | FinishOperationOutcome::Lost(_)
            | FinishOperationOutcome::Stale(_) => false,
        }
    }

    fn janitor(&mut self) {
        for at in 0..self.operations.len() {
            let operation = &self.operations[at];
            let (attempt, by) =
                (operation.attempt, FinishBy::Janitor { unheard_since: self.now.minus(STALE_AFTER) });
            let end = match operation.recovery {
                Recovery::Revert => OperationEnd::Reverted,
                Recovery::Hold => OperationEnd::InDoubt,
            };
            self.finish(at, attempt, by, end);
        }
    }

    fn happen(&mut self, event: &Event) {
        let place =
            |n: usize, world: &World| (!world.operations.is_empty()).then(|| n % world.operations.len());
        match event {
            Event::Ask { step, requester, same_key } => self.ask(*step, *requester, *same_key),
            Event::Finish { operation, end } => {
                let Some(at) = place(*operation, self) else { return };
                let (attempt, owner) = (self.operations[at].attempt, self.operations[at].owner);
                let end = match end {
                    0 => OperationEnd::Done { result: Payload::null(), data: None },
                    1 => OperationEnd::Rejected(Failure::permanent("no")),
                    _ => OperationEnd::Failed(Failure::unknown("cut off")),
                };
                let was_over = self.operations[at].state.status() != OperationStatus::Pending;
                let before = self.entity.clone();
                let is_done = matches!(end, OperationEnd::Done { .. });
                let written = self.finish(at, attempt, FinishBy::Holder(owner), end);
                assert!(!(was_over && written), "a zombie wrote");
                assert!(written || before == self.entity);
                // A holder that cannot record the end gives up: the entity was changed by others.
                if is_done && !written && !was_over {
                    let failed = OperationEnd::Failed(Failure::unknown("stale"));
                    assert!(self.finish(at, attempt, FinishBy::Holder(owner), failed));
                }
            }
            Event::Beat { operation } => {
                let Some(at) = place(*operation, self) else { return };
                if let OperationState::Pending { heard_at } = &mut self.operations[at].state {
                    *heard_at = self.now;
                }
            }
            Event::Wait { seconds } => self.now = self.now.plus(Duration::from_secs(*seconds)),
            Event::Janitor => self.janitor(),
            Event::Decide { operation, done } => {
                let Some(at) = place(*operation, self) else { return };
                self.decide(at, *done);
            }
        }
    }

    fn decide(&mut self, at: usize, done: bool) {
        let end = match done {
            true => OperationEnd::Done { result: Payload::null(), data: None },
            false => OperationEnd::Failed(Failure::permanent("it did not happen")),
        };
        let attempt = self.operations[at].attempt;
        self.finish(at, attempt, FinishBy::People, end);
    }

    fn is_held(&self) -> bool {
        self.workflow.is_transient(&self.entity.status)
    }

    /// An entity in a transient status is held by exactly one operation that a janitor covers.
    fn check(&self) {
        assert!(self.workflow.status_types.contains(&self.entity.status), "{}", self.entity.status);
        let holders: Vec<&Operation> = self.operations.iter().filter(|known| known.holds_entity()).collect();
        assert!(holders.len() <= 1, "{holders:#?}");
        assert_eq!(self.is_held(), !holders.is_empty(), "{} by {holders:#?}", self.entity.status);
        for holder in holders {
            assert_eq!(holder.claim.as_ref().map(|claim| &claim.into), Some(&self.entity.status));
            assert_eq!(holder.module, self.workflow.module);
            assert!(self.workflow.find_uncovered(&BTreeSet::from([holder.module.clone()])).is_none());
        }
    }
}

/// A separate valid step, for breaking rules.
fn with_extra(mut document: Value) -> Value {
    document["statusTypes"].as_array_mut().unwrap().push(json!("fresh"));
    document["steps"].as_array_mut().unwrap().push(json!({
        "stepId": 900, "stepKey": "extra", "status": "s0", "successfulState": "s1",
        "claimState": ["fresh", "s0"], "action": "Act", "effect": "non_idempotent",
    }));
    document
}

const BREAKS: [&str; 11] = [
    "claim_is_pair",
    "claim_statuses_known",
    "claim_goes_elsewhere",
    "claim_leaves_status",
    "claim_is_transient",
    "one_revert_per_claim",
    "status_known",
    "claim_status_reserved",
    "steps_distinct",
    "unprotected_effect",
    "step_usable",
];

/// Breaks exactly one rule.
fn break_rule(document: &mut Value, rule: &str) {
    let steps = document["steps"].as_array_mut().unwrap();
    let more = json!({ "stepId": 901, "stepKey": "more", "status": "s0", "successfulState": "s1" });
    let mut add = |fields: Value| {
        let mut step = more.clone();
        step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        steps.push(step);
    };
    match rule {
        "one_revert_per_claim" => add(json!({ "claimState": ["fresh", "s1"] })),
        "claim_status_reserved" => add(json!({ "status": "fresh" })),
        "steps_distinct" => add(json!({ "stepKey": "extra" })),
        "unprotected_effect" => add(json!({ "action": "Act", "effect": "non_idempotent" })),
        "step_usable" => add(json!({ "status": { "admin": "s0" }, "successfulState": { "system": "s1" } })),
        rule => {
            let step = steps.last_mut().unwrap();
            match rule {
                "claim_is_pair" => step["claimState"] = json!(["fresh"]),
                "claim_statuses_known" => step["claimState"] = json!(["fresh", "nowhere"]),
                "claim_goes_elsewhere" => step["claimState"] = json!(["fresh", "fresh"]),
                "claim_leaves_status" => step["status"] = json!(["s0", "fresh"]),
                "claim_is_transient" => step["successfulState"] = json!("fresh"),
                "status_known" => step["successfulState"] = json!("nowhere"),
                rule => panic!("{rule}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// S1.16, S1.35, S1.42: a valid workflow never leaves an entity stuck. An operation covered by a janitor holds
    /// every entity in a transient status, and after the janitor has run, only operations that people must decide are
    /// still held.
    #[test]
    fn valid_workflows_never_leave_an_entity_stuck(
        document in documents(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let checked = check(&document);
        prop_assert!(checked.is_ok(), "{document}: {checked:?}");
        let mut world = World::new(checked.unwrap().document().workflow().clone());
        for event in &events {
            world.happen(event);
            world.check();
        }
        world.now = world.now.plus(STALE_AFTER * 2);
        world.janitor();
        world.check();
        if world.is_held() {
            let holder = world.operations.iter().find(|known| known.holds_entity()).unwrap();
            prop_assert_eq!(holder.state.status(), OperationStatus::InDoubt);
        }
        for at in 0..world.operations.len() {
            world.decide(at, at % 2 == 0);
        }
        world.check();
        prop_assert!(!world.is_held(), "people have decided all doubts");
    }

    /// S1.48-S1.53: a workflow that breaks one rule is refused by exactly that rule.
    #[test]
    fn a_broken_rule_is_the_one_that_is_named(document in documents(), nth in 0usize..BREAKS.len()) {
        let mut document = with_extra(document);
        prop_assert!(check(&document).is_ok(), "{document}");
        break_rule(&mut document, BREAKS[nth]);
        let problems = check(&document).expect_err("a rule is broken");
        let errors: BTreeSet<&str> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| problem.code)
            .collect();
        prop_assert_eq!(errors, BTreeSet::from([BREAKS[nth]]), "{}", document);
        prop_assert!(problems.iter().all(|problem| problem.at.is_some()), "{:?}", problems);
    }
}
