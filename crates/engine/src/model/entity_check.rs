//! Validation of entity workflows: the six rules of claims, and further rules that keep entities from getting
//! stuck.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, ClaimTo, EntityStep, EntityWorkflow, Name, Recovery, RevertRule};

/// A rule that a workflow can break. The type itself guarantees rule 1 for workflows built in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityRule {
    /// Rule 1: a claim is a pair of texts.
    ClaimIsPair,
    /// Rule 2: both statuses of a claim are declared.
    ClaimStatusesKnown,
    /// Rule 3: a claim does not revert to its own transient status.
    ClaimGoesElsewhere,
    /// Rule 4: a claim leaves the status of its step. Otherwise a second caller would pass.
    ClaimLeavesStatus,
    /// Rule 5: a claim does not lead into the status after the step. Otherwise the final write would change
    /// nothing.
    ClaimIsTransient,
    /// Rule 6: all claims into one status revert to the same status.
    OneRevertPerClaim,
    /// Every status that a step names is declared.
    StatusKnown,
    /// No step begins in a transient status or leads into one. Only its claim moves a claimed entity.
    ClaimStatusReserved,
    /// Ids and keys of steps are unique.
    StepsDistinct,
    /// An action declared non-idempotent has a claim, shares the transaction, or is an after-effect.
    UnprotectedEffect,
    /// At least one requester can use the step.
    StepUsable,
    /// Every status can be reached.
    StatusReachable,
    /// Every status except a final one has a step that leaves it.
    NoDeadEnd,
    /// A janitor should not revert an irreversible step so that it can be taken again.
    IrreversibleReverts,
    /// A step that fails should leave the entity in the status it had before.
    RevertsElsewhere,
}

impl EntityRule {
    /// Code used in problem reports.
    pub const fn code(self) -> &'static str {
        match self {
            EntityRule::ClaimIsPair => "claim_is_pair",
            EntityRule::ClaimStatusesKnown => "claim_statuses_known",
            EntityRule::ClaimGoesElsewhere => "claim_goes_elsewhere",
            EntityRule::ClaimLeavesStatus => "claim_leaves_status",
            EntityRule::ClaimIsTransient => "claim_is_transient",
            EntityRule::OneRevertPerClaim => "one_revert_per_claim",
            EntityRule::StatusKnown => "status_known",
            EntityRule::ClaimStatusReserved => "claim_status_reserved",
            EntityRule::StepsDistinct => "steps_distinct",
            EntityRule::UnprotectedEffect => "unprotected_effect",
            EntityRule::StepUsable => "step_usable",
            EntityRule::StatusReachable => "unreachable_status",
            EntityRule::NoDeadEnd => "dead_end",
            EntityRule::IrreversibleReverts => "irreversible_reverts",
            EntityRule::RevertsElsewhere => "reverts_elsewhere",
        }
    }

    /// Returns true if breaking the rule is only a warning.
    pub const fn only_warns(self) -> bool {
        match self {
            EntityRule::StatusReachable
            | EntityRule::NoDeadEnd
            | EntityRule::IrreversibleReverts
            | EntityRule::RevertsElsewhere => true,
            EntityRule::ClaimIsPair
            | EntityRule::ClaimStatusesKnown
            | EntityRule::ClaimGoesElsewhere
            | EntityRule::ClaimLeavesStatus
            | EntityRule::ClaimIsTransient
            | EntityRule::OneRevertPerClaim
            | EntityRule::StatusKnown
            | EntityRule::ClaimStatusReserved
            | EntityRule::StepsDistinct
            | EntityRule::UnprotectedEffect
            | EntityRule::StepUsable => false,
        }
    }
}

/// A broken rule and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityProblem {
    /// The broken rule.
    pub rule: EntityRule,
    /// JSON pointer into the document, such as `/steps/2/claim_state/admin/0`.
    pub path: String,
    /// Describes the problem and how to fix it.
    pub message: String,
}

/// Checks a workflow and returns all problems, in document order.
pub fn check_entity_workflow(workflow: &EntityWorkflow) -> Vec<EntityProblem> {
    let mut found = Findings {
        known: workflow.status_types.iter().collect(),
        transient: workflow.claims().into_iter().map(|claim| &claim.into).collect(),
        problems: Vec::new(),
    };
    for (at, status) in workflow.initial.iter().enumerate() {
        let path = format!("/initial/{at}");
        found.check_known(&path, status, EntityRule::StatusKnown);
        if found.transient.contains(status) {
            let message = format!(
                "nothing may begin in {status}: it is a claim state, and no operation would ever free it"
            );
            found.add(EntityRule::ClaimStatusReserved, path, message);
        }
    }
    check_distinct(workflow, &mut found);
    for (at, step) in workflow.steps.iter().enumerate() {
        check_step(at, step, &mut found);
    }
    if workflow.revert_rule == RevertRule::OnePerClaim {
        check_reverts(workflow, &mut found);
    }
    check_graph(workflow, &mut found);
    found.problems
}

struct Findings<'a> {
    known: BTreeSet<&'a Name>,
    /// Every status that a claim leads into.
    transient: BTreeSet<&'a Name>,
    problems: Vec<EntityProblem>,
}

impl Findings<'_> {
    fn add(&mut self, rule: EntityRule, path: String, message: String) {
        self.problems.push(EntityProblem { rule, path, message });
    }

    fn check_known(&mut self, path: &str, status: &Name, rule: EntityRule) {
        if !self.known.contains(status) {
            let message = format!("{status} is not among status_types: add it there, or mend the spelling");
            self.add(rule, path.into(), message);
        }
    }
}

/// Builds a pointer such as `/steps/2/claim_state/admin`.
fn place(at: usize, field: &str, requester: Option<&Name>) -> String {
    match requester {
        None => format!("/steps/{at}/{field}"),
        Some(requester) => format!("/steps/{at}/{field}/{requester}"),
    }
}

fn check_distinct(workflow: &EntityWorkflow, found: &mut Findings<'_>) {
    let (mut ids, mut keys) = (BTreeMap::new(), BTreeMap::new());
    for (at, step) in workflow.steps.iter().enumerate() {
        if let Some(first) = ids.insert(step.id, at) {
            let message =
                format!("step_id {} is also used by /steps/{first}: give each step its own", step.id);
            found.add(EntityRule::StepsDistinct, place(at, "step_id", None), message);
        }
        if let Some(first) = keys.insert(&step.key, at) {
            let message = format!(
                "step_key {} is also used by /steps/{first}: give each step its own, so that callers can address it",
                step.key
            );
            found.add(EntityRule::StepsDistinct, place(at, "step_key", None), message);
        }
    }
}

fn check_step(at: usize, step: &EntityStep, found: &mut Findings<'_>) {
    for (requester, statuses) in step.status.iter() {
        for (nth, status) in statuses.iter().enumerate() {
            let mut path = place(at, "status", requester);
            if statuses.len() > 1 {
                path = format!("{path}/{nth}");
            }
            found.check_known(&path, status, EntityRule::StatusKnown);
            // A claim of the same step into its own status is reported as rule 4, which is more precise.
            if found.transient.contains(status) && !is_own_claim(step, requester, status) {
                let message = format!("{status} is a claim state: while it is held no step may begin in it");
                found.add(EntityRule::ClaimStatusReserved, path, message);
            }
        }
    }
    for (requester, status) in step.successful_state.iter() {
        let path = place(at, "successful_state", requester);
        found.check_known(&path, status, EntityRule::StatusKnown);
        // A claim of the same step into its own successful state is reported as rule 5, which is more
        // precise.
        if found.transient.contains(status) && !is_own_claim(step, requester, status) {
            let message = format!(
                "{status} is a claim state: only its claim may lead there, because nothing else would free it"
            );
            found.add(EntityRule::ClaimStatusReserved, path, message);
        }
    }
    check_claims(at, step, found);
    let views = step.views();
    if views.iter().all(|(_, view)| view.status.is_empty()) {
        let message = format!(
            "no requester can use {}: none has a status, a successful_state and (where there are any) an action",
            step.key
        );
        found.add(EntityRule::StepUsable, format!("/steps/{at}"), message);
    }
    for (requester, view) in views {
        let declared = step.idempotent.as_ref().and_then(|field| field.find(requester));
        let shares = matches!(view.action, Some(Action::Handler { transaction: true, .. }));
        if declared == Some(&false) && view.claim.is_none() && !shares && view.success_after_effect.is_none()
        {
            let message = format!(
                "the action of {} is declared not to be idempotent, and nothing keeps it from running twice: give the step a \
                 claim_state, let the action share the transaction, or make it a success_after_effect",
                step.key
            );
            found.add(EntityRule::UnprotectedEffect, place(at, "effect", requester), message);
        }
        if view.irreversible.is_irreversible() && view.claim.is_some() && view.recovery == Recovery::Revert {
            let message = format!(
                "{} cannot be taken back, yet after a crash the janitor makes it possible again: recovery: hold shows it to people instead",
                step.key
            );
            found.add(EntityRule::IrreversibleReverts, place(at, "recovery", requester), message);
        }
        let elsewhere =
            |claim: &ClaimTo| view.status.iter().find(|status| **status != claim.revert_to).cloned();
        if let Some((claim, began)) = view.claim.as_ref().and_then(|claim| Some((claim, elsewhere(claim)?))) {
            let message = format!(
                "if {key} fails, what began in {began} goes on in {to}: give {began} a step of its own, claimed into {into}_from_{began}",
                key = step.key,
                to = claim.revert_to,
                into = claim.into
            );
            found.add(
                EntityRule::RevertsElsewhere,
                format!("{}/1", place(at, "claim_state", requester)),
                message,
            );
        }
    }
}

/// Returns true if two values of a step can apply to the same requester. `None` applies to all requesters.
fn meet(one: Option<&Name>, other: Option<&Name>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Returns true if the step itself claims into `status` for this requester.
fn is_own_claim(step: &EntityStep, requester: Option<&Name>, status: &Name) -> bool {
    let mut claims = step.claim.iter().flat_map(|claims| claims.iter());
    claims.any(|(asks, claim)| meet(asks, requester) && claim.into == *status)
}

/// Checks rules 2 to 5.
fn check_claims(at: usize, step: &EntityStep, found: &mut Findings<'_>) {
    let Some(claims) = &step.claim else { return };
    for (requester, claim) in claims.iter() {
        let path = place(at, "claim_state", requester);
        found.check_known(&format!("{path}/0"), &claim.into, EntityRule::ClaimStatusesKnown);
        found.check_known(&format!("{path}/1"), &claim.revert_to, EntityRule::ClaimStatusesKnown);
        let ClaimTo { into, revert_to } = claim;
        if into == revert_to {
            let message = format!(
                "a claim into {into} that goes back to {revert_to} frees nothing: name the status before the claim"
            );
            found.add(EntityRule::ClaimGoesElsewhere, path.clone(), message);
        } else if found.transient.contains(revert_to) {
            let message = format!("{revert_to} is a claim state itself: what goes back there would be stuck");
            found.add(EntityRule::ClaimStatusReserved, format!("{path}/1"), message);
        }
        let here = |asks: Option<&Name>| meet(requester, asks);
        let leaves = |(asks, statuses): (Option<&Name>, &Vec<Name>)| !here(asks) || !statuses.contains(into);
        if !step.status.iter().all(leaves) {
            let message =
                format!("the claim leads into {into}, where the step begins: a second caller would pass");
            found.add(EntityRule::ClaimLeavesStatus, format!("{path}/0"), message);
        }
        if !step.successful_state.iter().all(|(asks, status)| !here(asks) || status != into) {
            let message = format!(
                "the claim leads into {into}, which is the successful_state: the last write would change nothing"
            );
            found.add(EntityRule::ClaimIsTransient, format!("{path}/0"), message);
        }
    }
}

/// Checks rule 6.
fn check_reverts(workflow: &EntityWorkflow, found: &mut Findings<'_>) {
    let mut first: BTreeMap<&Name, (&Name, String)> = BTreeMap::new();
    for (at, step) in workflow.steps.iter().enumerate() {
        for (requester, claim) in step.claim.iter().flat_map(|claims| claims.iter()) {
            let path = place(at, "claim_state", requester);
            match first.get(&claim.into) {
                None => drop(first.insert(&claim.into, (&claim.revert_to, path))),
                Some((revert_to, _)) if **revert_to == claim.revert_to => {}
                Some((revert_to, before)) => {
                    let message = format!(
                        "the claim into {} goes back to {}, the one at {before} to {revert_to}: give each its own status, such as {}_from_{}, \
                         or set claims.revert_to: recorded",
                        claim.into, claim.revert_to, claim.into, claim.revert_to
                    );
                    found.add(EntityRule::OneRevertPerClaim, format!("{path}/1"), message);
                }
            }
        }
    }
}

/// Finds unreachable statuses, and statuses without a way out that are not among the last.
fn check_graph(workflow: &EntityWorkflow, found: &mut Findings<'_>) {
    let mut edges: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
    let views: Vec<_> = workflow.steps.iter().flat_map(EntityStep::views).map(|(_, view)| view).collect();
    for view in &views {
        for from in &view.status {
            let to = edges.entry(from).or_default();
            to.insert(&view.successful_state);
            to.extend(view.claim.iter().map(|claim| &claim.into));
        }
        if let Some(claim) = &view.claim {
            edges.entry(&claim.into).or_default().extend([&view.successful_state, &claim.revert_to]);
        }
    }
    let mut open: Vec<&Name> = workflow.initial_statuses().iter().collect();
    let mut reached: BTreeSet<&Name> = open.iter().copied().collect();
    while let Some(status) = open.pop() {
        for next in edges.get(status).into_iter().flatten() {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    let last_begins = workflow.status_types.iter().rposition(|status| edges.contains_key(status));
    for (at, status) in workflow.status_types.iter().enumerate() {
        let path = format!("/status_types/{at}");
        if !reached.contains(status) {
            let message =
                format!("nothing leads to {status}: add a step that does, or name it among initial");
            found.add(EntityRule::StatusReachable, path, message);
        } else if !edges.contains_key(status) && last_begins.is_some_and(|last| at < last) {
            let message = format!(
                "nothing leads out of {status}, though it is not among the last statuses: is a step missing?"
            );
            found.add(EntityRule::NoDeadEnd, path, message);
        }
    }
}

#[cfg(test)]
mod tests;
