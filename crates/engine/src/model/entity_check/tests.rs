//! Each rule alone, and all broken rules reported together.

use super::*;
use crate::model::{EntityStorage, PerRequester};

fn name(text: &str) -> Name {
    Name::new("test", text).unwrap()
}

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn claim(into: &str, revert_to: &str) -> ClaimTo {
    ClaimTo { into: name(into), revert_to: name(revert_to) }
}

fn by<T: Clone>(values: &[(&str, T)]) -> PerRequester<T> {
    PerRequester::By(values.iter().map(|(requester, value)| (name(requester), value.clone())).collect())
}

fn handler() -> Option<PerRequester<Action>> {
    Some(PerRequester::All(Action::Handler { name: name("Close"), transaction: false }))
}

fn step(id: u32, key: &str, from: &str, to: &str) -> EntityStep {
    EntityStep {
        id,
        key: name(key),
        status: PerRequester::All(names(&[from])),
        successful_state: PerRequester::All(name(to)),
        action: None,
        claim: None,
        recovery: None,
        irreversible: None,
        key_required: None,
        retry: None,
        success_after_effect: None,
        failure_after_effect: None,
        idempotent: None,
    }
}

/// The invoice workflow of the specification: approve, then close under a claim.
fn invoice() -> EntityWorkflow {
    let close = EntityStep {
        claim: Some(PerRequester::All(claim("closing", "approved"))),
        action: handler(),
        ..step(20, "close", "approved", "closed")
    };
    EntityWorkflow {
        name: name("invoice-billing"),
        module: name("billing"),
        entity: name("invoice"),
        home: EntityStorage::BuiltIn,
        status_types: names(&["draft", "approved", "closing", "closed"]),
        initial: Vec::new(),
        revert_rule: RevertRule::OnePerClaim,
        steps: vec![step(10, "approve", "draft", "approved"), close],
    }
}

fn found(workflow: &EntityWorkflow) -> Vec<String> {
    let told = check_entity_workflow(workflow);
    told.iter().map(|problem| format!("{} {}", problem.rule.code(), problem.path)).collect()
}

/// Problems found in the invoice workflow after `change`.
fn with(change: impl FnOnce(&mut EntityWorkflow)) -> Vec<String> {
    let mut workflow = invoice();
    change(&mut workflow);
    found(&workflow)
}

fn claimed(into: &str, revert_to: &str) -> Vec<String> {
    with(|workflow| workflow.steps[1].claim = Some(PerRequester::All(claim(into, revert_to))))
}

#[test]
fn a_workflow_in_order_has_no_problems() {
    assert_eq!(found(&invoice()), [""; 0]);
}

/// S1.48: the type guarantees rule 1, so only documents can break it. They use its code.
#[test]
fn rule_1_has_a_code_for_documents_to_use() {
    assert_eq!(EntityRule::ClaimIsPair.code(), "claim_is_pair");
    assert!(!EntityRule::ClaimIsPair.only_warns());
}

/// S1.49
#[test]
fn rule_2_both_statuses_of_a_claim_are_declared() {
    assert!(claimed("clsing", "approved").contains(&"claim_statuses_known /steps/1/claim_state/0".into()));
    assert!(claimed("closing", "aproved").contains(&"claim_statuses_known /steps/1/claim_state/1".into()));
}

/// S1.50
#[test]
fn rule_3_a_claim_does_not_go_back_to_where_it_leads() {
    assert!(claimed("closing", "closing").contains(&"claim_goes_elsewhere /steps/1/claim_state".into()));
}

/// S1.51
#[test]
fn rule_4_a_claim_leaves_the_status_of_its_step() {
    let told = claimed("approved", "draft");
    assert!(told.contains(&"claim_leaves_status /steps/1/claim_state/0".into()), "{told:?}");
    assert!(
        !told.contains(&"claim_status_reserved /steps/1/status".into()),
        "rule 4 says it better: {told:?}"
    );
    let told = with(|workflow| {
        workflow.steps[1].claim = Some(by(&[("admin", claim("approved", "draft"))]));
        workflow.steps[1].status = by(&[("admin", names(&["draft"])), ("system", names(&["approved"]))]);
    });
    assert!(
        !told.iter().any(|problem| problem.starts_with("claim_leaves_status")),
        "another requester begins there: {told:?}"
    );
    assert!(told.contains(&"claim_status_reserved /steps/1/status/system".into()), "{told:?}");
}

/// S1.52
#[test]
fn rule_5_a_claim_does_not_lead_into_the_status_after_the_step() {
    let told = claimed("closed", "approved");
    assert_eq!(told, ["claim_is_transient /steps/1/claim_state/0", "unreachable_status /status_types/2"]);
}

/// S1.53
#[test]
fn rule_6_claims_into_one_status_go_back_to_the_same_one() {
    let two = |workflow: &mut EntityWorkflow| {
        let other = EntityStep {
            claim: Some(by(&[("admin", claim("closing", "draft"))])),
            ..step(30, "drop", "draft", "closed")
        };
        workflow.steps.push(other);
    };
    assert_eq!(with(two), ["one_revert_per_claim /steps/2/claim_state/admin/1"]);
    let lifted = with(|workflow| {
        two(workflow);
        workflow.revert_rule = RevertRule::Recorded;
    });
    assert_eq!(lifted, [""; 0]);
    let among_requesters = with(|workflow| {
        let claims = [("admin", claim("closing", "approved")), ("system", claim("closing", "draft"))];
        workflow.steps[1].claim = Some(by(&claims));
        workflow.steps[1].status = by(&[("admin", names(&["approved"])), ("system", names(&["draft"]))]);
    });
    assert_eq!(among_requesters, ["one_revert_per_claim /steps/1/claim_state/system/1"]);
}

/// S1.54: the message suggests a name for the missing status.
#[test]
fn rule_6_says_how_to_mend_it() {
    let mut workflow = invoice();
    let other = EntityStep {
        claim: Some(PerRequester::All(claim("closing", "draft"))),
        ..step(30, "drop", "draft", "closed")
    };
    workflow.steps.push(other);
    let told = check_entity_workflow(&workflow);
    assert!(told[0].message.contains("closing_from_draft"), "{}", told[0].message);
    assert!(told[0].message.contains("/steps/1/claim_state"), "{}", told[0].message);
}

/// S1.35: only its claim moves a claimed entity.
#[test]
fn no_step_begins_in_or_leads_into_a_claim_state() {
    let told = with(|workflow| workflow.steps.push(step(30, "finish", "closing", "closed")));
    assert_eq!(told, ["claim_status_reserved /steps/2/status"]);
    let told = with(|workflow| workflow.steps.push(step(30, "jump", "draft", "closing")));
    assert_eq!(told, ["claim_status_reserved /steps/2/successful_state"]);
    let told = with(|workflow| workflow.initial = names(&["draft", "closing"]));
    assert_eq!(told, ["claim_status_reserved /initial/1"]);
    let told = with(|workflow| {
        workflow.status_types.push(name("dropping"));
        let drop = EntityStep {
            claim: Some(PerRequester::All(claim("dropping", "closing"))),
            ..step(30, "drop", "draft", "closed")
        };
        workflow.steps.push(drop);
    });
    assert!(told.contains(&"claim_status_reserved /steps/2/claim_state/1".into()), "{told:?}");
}

/// S1.57, S1.58: claims are optional, but an action declared non-idempotent must be protected in some way.
#[test]
fn an_action_declared_not_to_be_idempotent_is_protected() {
    let unprotected = |change: fn(&mut EntityStep)| {
        with(|workflow| {
            let close = &mut workflow.steps[1];
            *close = EntityStep { claim: None, idempotent: Some(PerRequester::All(false)), ..close.clone() };
            workflow.status_types = names(&["draft", "approved", "closed"]);
            change(&mut workflow.steps[1]);
        })
    };
    assert_eq!(unprotected(|_| {}), ["unprotected_effect /steps/1/effect"]);
    assert_eq!(unprotected(|step| step.idempotent = Some(PerRequester::All(true))), [""; 0]);
    assert_eq!(unprotected(|step| step.idempotent = None), [""; 0], "opt-in");
    let shares = |step: &mut EntityStep| {
        step.action = Some(PerRequester::All(Action::Handler { name: name("Close"), transaction: true }));
    };
    assert_eq!(unprotected(shares), [""; 0]);
    let after = |step: &mut EntityStep| {
        step.action = None;
        step.success_after_effect = Some(PerRequester::All(name("mail")));
    };
    assert_eq!(unprotected(after), [""; 0]);
    // S1.18: one requester claims, the other does not.
    let told = with(|workflow| {
        workflow.steps[1].claim = Some(by(&[("admin", claim("closing", "approved"))]));
        workflow.steps[1].idempotent = Some(by(&[("admin", false), ("system", false)]));
    });
    assert_eq!(told, ["unprotected_effect /steps/1/effect/system"]);
}

#[test]
fn statuses_that_steps_name_are_declared() {
    let told = with(|workflow| {
        workflow.initial = names(&["drft"]);
        workflow.steps[0].status = PerRequester::All(names(&["draft", "drft"]));
        workflow.steps[1].successful_state = by(&[("admin", name("cloesd"))]);
    });
    for path in ["/initial/0", "/steps/0/status/1", "/steps/1/successful_state/admin"] {
        assert!(told.contains(&format!("status_known {path}")), "{path}: {told:?}");
    }
}

#[test]
fn numbers_and_keys_of_steps_are_theirs_alone() {
    let told = with(|workflow| workflow.steps.push(step(20, "approve", "draft", "approved")));
    assert_eq!(told, ["steps_distinct /steps/2/step_id", "steps_distinct /steps/2/step_key"]);
}

#[test]
fn somebody_can_use_each_step() {
    let told = with(|workflow| {
        workflow.steps[0].status = by(&[("admin", names(&["draft"]))]);
        workflow.steps[0].successful_state = by(&[("system", name("approved"))]);
    });
    assert!(told.contains(&"step_usable /steps/0".into()), "{told:?}");
    let told = with(|workflow| workflow.steps[0].status = PerRequester::All(Vec::new()));
    assert!(told.contains(&"step_usable /steps/0".into()), "{told:?}");
}

#[test]
fn unreachable_statuses_and_dead_ends_are_worth_a_warning() {
    let told = with(|workflow| workflow.status_types.insert(0, name("lost")));
    assert!(told.contains(&"dead_end /status_types/0".into()), "it is where things begin: {told:?}");
    let told = with(|workflow| {
        workflow.initial = names(&["draft"]);
        workflow.status_types.insert(1, name("lost"));
    });
    assert_eq!(told, ["unreachable_status /status_types/1"]);
    for rule in [EntityRule::StatusReachable, EntityRule::NoDeadEnd] {
        assert!(rule.only_warns());
    }
}

/// G1.4: an action that was running during a crash may have happened.
#[test]
fn an_irreversible_step_should_be_held() {
    let irreversible = |workflow: &mut EntityWorkflow| {
        workflow.steps[1].irreversible = Some(PerRequester::All(crate::model::Irreversible::Once));
    };
    assert_eq!(with(irreversible), ["irreversible_reverts /steps/1/recovery"]);
    let held = with(|workflow| {
        irreversible(workflow);
        workflow.steps[1].recovery = Some(PerRequester::All(Recovery::Hold));
    });
    assert_eq!(held, [""; 0]);
    assert!(EntityRule::IrreversibleReverts.only_warns());
}

/// S1.54: an entity that was overdue must not come back as sent.
#[test]
fn a_step_that_fails_should_leave_things_where_they_began() {
    let told = with(|workflow| workflow.steps[1].status = PerRequester::All(names(&["approved", "draft"])));
    assert_eq!(told, ["reverts_elsewhere /steps/1/claim_state/1"]);
    assert!(EntityRule::RevertsElsewhere.only_warns());
}

/// S1.48-S1.53: all problems are reported at once, each with its rule.
#[test]
fn a_workflow_that_breaks_many_rules_is_told_all_of_them() {
    let workflow = EntityWorkflow {
        steps: vec![
            EntityStep {
                claim: Some(PerRequester::All(claim("clsing", "approved"))),
                ..step(1, "two", "approved", "closed")
            },
            EntityStep {
                claim: Some(PerRequester::All(claim("closing", "closing"))),
                ..step(2, "three", "approved", "closed")
            },
            EntityStep {
                claim: Some(by(&[("admin", claim("held", "approved"))])),
                ..step(3, "four", "held", "closed")
            },
            EntityStep {
                claim: Some(PerRequester::All(claim("settled", "approved"))),
                ..step(4, "five", "approved", "settled")
            },
            EntityStep {
                claim: Some(PerRequester::All(claim("closing", "approved"))),
                ..step(5, "six", "approved", "closed")
            },
            EntityStep { idempotent: Some(PerRequester::All(false)), ..step(5, "six", "lost", "closed") },
        ],
        status_types: names(&["draft", "approved", "closing", "held", "settled", "closed"]),
        ..invoice()
    };
    let told = found(&workflow);
    for wanted in [
        "claim_statuses_known /steps/0/claim_state/0",
        "claim_goes_elsewhere /steps/1/claim_state",
        "claim_leaves_status /steps/2/claim_state/admin/0",
        "claim_is_transient /steps/3/claim_state/0",
        "one_revert_per_claim /steps/4/claim_state/1",
        "steps_distinct /steps/5/step_id",
        "steps_distinct /steps/5/step_key",
        "status_known /steps/5/status",
        "unprotected_effect /steps/5/effect",
        "unreachable_status /status_types/1",
    ] {
        assert!(told.contains(&wanted.to_string()), "{wanted} in {told:#?}");
    }
}
