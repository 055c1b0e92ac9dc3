//! Steps of entity workflows: each field is one value, or a map by requester.

use std::collections::BTreeMap;

use hapax_engine::model::{
    Action, ClaimTo, EntityRule, EntityStep, Irreversible, Name, PerRequester, Recovery, RetryAnswer,
};

use super::{Decoder, Located};
use crate::entity::{
    AFTER_FAILURE, AFTER_SUCCESS, ActionRequest, AfterEffect, AfterRequest, HTTP_ACTION, HTTP_TARGET,
    OF_ANSWER, RunOf, StepAction, StepDetails, Validation, WORKFLOW_TARGET,
};
use crate::fields;
use crate::limits::{MAX_AFTER_EFFECT_TIMEOUT, MAX_REQUESTERS, MAX_STEP_ID, MAX_VALIDATIONS};
use crate::node::Kind;
use crate::problem::{below, excerpt};

/// The readable part of a step.
pub(super) struct StepFound {
    pub(super) step: EntityStep,
    pub(super) details: StepDetails,
    pub(super) is_broken: bool,
}

impl Decoder<'_> {
    pub(super) fn entity_step(
        &mut self,
        place: &Located<'_>,
        at: usize,
        has_table: bool,
    ) -> Option<StepFound> {
        let errors = self.problems.errors();
        // A value that is not an object is one problem, not one for each missing field.
        let mut fields = match &place.node.kind {
            Kind::Object(_) => self.object(place)?,
            _ => {
                self.wrong_type(place, "an object");
                return unreadable(at);
            }
        };
        let id = self.need_spelled(&mut fields, "stepId");
        let id = id.and_then(|place| self.number(&place, 0, MAX_STEP_ID.into()));
        let key = self.need_spelled(&mut fields, "stepKey");
        let key = key.and_then(|place| self.entity_name(&place, "stepKey"));
        let status = self.need(&mut fields, "status");
        let status = self.per_requester(status, &[], Self::status_list);
        let successful_state = self.need_spelled(&mut fields, "successfulState");
        let successful_state = self.per_requester(successful_state, &[], Self::one_status);
        let claim = self.take_spelled(&mut fields, "claimState");
        let alias = self.take_spelled(&mut fields, "successfulClaimState");
        if let (Some(_), Some(alias)) = (&claim, &alias) {
            let message = "it is another word for claimState, which is here as well; keep one";
            self.error(alias, "claim_given_twice", message);
        }
        let claim = self.per_requester(claim.or(alias), &[], Self::claim);
        let action = fields.take("action");
        let action = self.per_requester(action, fields::ENTITY_ACTIONS, |decoder, place| {
            decoder.entity_action(place, has_table)
        });
        let validation = fields.take("validation");
        let validation = self.per_requester(validation, fields::VALIDATION, Self::validations);
        let idempotent = fields.take("effect");
        let effects = [("idempotent", Some(true)), ("non_idempotent", Some(false))];
        let idempotent = self.per_requester(idempotent, &[], |decoder, place| decoder.word(place, &effects));
        let recovery = fields.take("recovery");
        let recoveries =
            [Recovery::Revert, Recovery::Hold].map(|recovery| (recovery.as_str(), Some(recovery)));
        let recovery = self.per_requester(recovery, &[], |decoder, place| decoder.word(place, &recoveries));
        let irreversible = fields.take("irreversible");
        let irreversible = self.per_requester(irreversible, &[], Self::irreversible);
        let key_required = fields.take("idempotency");
        let needs = [("optional", Some(false)), ("required", Some(true))];
        let key_required =
            self.per_requester(key_required, &[], |decoder, place| decoder.word(place, &needs));
        let place = fields.take("probe");
        if let Some(place) = &place
            && claim.is_none()
        {
            let message = "a probe asks about a claimed step, which can be held in doubt; add claimState, or leave it out";
            self.error(place, "not_claimed", message);
        }
        let probe = self.per_requester(place, fields::PROBES, Self::probe);
        let retry = fields.take("retry");
        let answers =
            [RetryAnswer::Refused, RetryAnswer::Returns].map(|answer| (answer.as_str(), Some(answer)));
        let retry = self.per_requester(retry, &[], |decoder, place| decoder.word(place, &answers));
        let success = self.take_spelled(&mut fields, "successAfterEffect");
        let success = self.per_requester(success, fields::AFTER_EFFECTS, |decoder, place| {
            decoder.after_effect(place, AFTER_SUCCESS)
        });
        let failure = self.take_spelled(&mut fields, "failureAfterEffect");
        let failure = self.per_requester(failure, fields::AFTER_EFFECTS, |decoder, place| {
            decoder.after_effect(place, AFTER_FAILURE)
        });
        self.finish(fields, "a step of an entity workflow", &[fields::ENTITY_STEP]);
        let nobody = || PerRequester::By(BTreeMap::new());
        let unnamed = unreadable(at)?.step;
        let step = EntityStep {
            id: id.and_then(|id| u32::try_from(id).ok()).unwrap_or(unnamed.id),
            key: key.unwrap_or(unnamed.key),
            status: status.unwrap_or_else(nobody),
            successful_state: successful_state.unwrap_or(PerRequester::By(BTreeMap::new())),
            action: action.as_ref().map(|action| mapped(action, model_action)),
            claim,
            recovery,
            irreversible,
            key_required,
            retry,
            success_after_effect: success.as_ref().map(|after| mapped(after, model_target)),
            failure_after_effect: failure.as_ref().map(|after| mapped(after, model_target)),
            idempotent,
        };
        let details = StepDetails {
            validation,
            action,
            probe,
            success_after_effect: success,
            failure_after_effect: failure,
        };
        Some(StepFound { step, details, is_broken: self.problems.errors() > errors })
    }

    /// One value for all requesters, or an object with one value each. `words` are the keys of an object that is itself
    /// one value.
    fn per_requester<T>(
        &mut self,
        place: Option<Located<'_>>,
        words: &[&str],
        mut read: impl FnMut(&mut Self, &Located<'_>) -> Option<T>,
    ) -> Option<PerRequester<T>> {
        let place = place?;
        let entries = match &place.node.kind {
            Kind::Object(entries) if !entries.iter().any(|(key, _)| words.contains(&key.as_str())) => entries,
            _ => return read(self, &place).map(PerRequester::All),
        };
        if !(1..=MAX_REQUESTERS).contains(&entries.len()) {
            let message = format!("it is by requester, of whom there must be 1 to {MAX_REQUESTERS}");
            self.error(&place, "out_of_range", message);
            return None;
        }
        let mut by = BTreeMap::new();
        for (requester, node) in entries {
            let place = Located { path: below(&place.path, excerpt(requester)), node };
            if fields::NO_REQUESTERS.contains(&requester.as_str()) {
                let message = format!(
                    "{requester} is a word of actions and after-effects, so no requester can be called so here"
                );
                self.error(&place, "reserved_requester", message);
                continue;
            }
            match Name::new("requester", requester) {
                Ok(requester) => drop(read(self, &place).map(|value| by.insert(requester, value))),
                Err(invalid) => self.error(&place, "bad_name", invalid),
            }
        }
        Some(PerRequester::By(by))
    }

    /// S1.48, rule 1: a claim is a pair of strings.
    fn claim(&mut self, place: &Located<'_>) -> Option<ClaimTo> {
        let items = match &place.node.kind {
            Kind::List(items) if items.len() == 2 => self.list(place)?,
            _ => {
                let message =
                    "a claim is a pair of two statuses: [the one held meanwhile, the one it goes back to]";
                self.error(place, EntityRule::ClaimIsPair.code(), message);
                return None;
            }
        };
        let names: Vec<Option<Name>> = items
            .iter()
            .map(|item| match &item.node.kind {
                Kind::Text(_) => self.one_status(item),
                _ => {
                    let message = format!(
                        "a claim is a pair of two statuses, as texts, and this is {}",
                        item.node.type_name()
                    );
                    self.error(item, EntityRule::ClaimIsPair.code(), message);
                    None
                }
            })
            .collect();
        match names.as_slice() {
            [Some(into), Some(revert_to)] => {
                Some(ClaimTo { into: into.clone(), revert_to: revert_to.clone() })
            }
            _ => None,
        }
    }

    fn word<T: Copy>(&mut self, place: &Located<'_>, words: &[(&str, Option<T>)]) -> Option<T> {
        self.choice(Some(place.clone()), words, None)
    }

    fn irreversible(&mut self, place: &Located<'_>) -> Option<Irreversible> {
        match &place.node.kind {
            Kind::Bool(true) => Some(Irreversible::Once),
            Kind::Bool(false) => Some(Irreversible::No),
            Kind::Text(_) => {
                self.word(place, &[("once", Some(Irreversible::Once)), ("each", Some(Irreversible::Each))])
            }
            _ => {
                self.wrong_type(place, "true, false, once or each");
                None
            }
        }
    }

    fn entity_action(&mut self, place: &Located<'_>, has_table: bool) -> Option<StepAction> {
        if let Kind::Text(_) = &place.node.kind {
            let name = self.entity_name(place, "handler")?;
            return Some(StepAction::Handler { name, transaction: false });
        }
        let mut fields = self.object_or(place, "the name of a handler, or an object")?;
        let given: Vec<(&str, Located<'_>)> =
            fields::ENTITY_ACTIONS.iter().filter_map(|word| Some((*word, fields.take(word)?))).collect();
        let [(kind, given)] = given.as_slice() else {
            let message = format!("an action is one of: {}", fields::ENTITY_ACTIONS.join(", "));
            self.error(place, "one_of", message);
            return None;
        };
        match *kind {
            "handler" => {
                let transaction = fields.take("transaction");
                let transaction = self.flag(transaction);
                self.finish(fields, "a handler", &[fields::HANDLER]);
                let name = self.entity_name(given, "handler")?;
                Some(StepAction::Handler { name, transaction })
            }
            "workflow" => {
                let input = fields.take("input");
                self.finish(fields, "a workflow as an action", &[fields::RUN_OF]);
                self.run_of(given, input, &[]).map(StepAction::Workflow)
            }
            _ => {
                self.finish(fields, "an action that is a request", &[&["http"]]);
                self.action_request(given, has_table).map(|request| StepAction::Http(Box::new(request)))
            }
        }
    }

    fn object_or<'n>(&mut self, place: &Located<'n>, wanted: &str) -> Option<super::Fields<'n>> {
        match &place.node.kind {
            Kind::Object(_) => self.object(place),
            _ => {
                self.wrong_type(place, wanted);
                None
            }
        }
    }

    fn run_of(
        &mut self,
        place: &Located<'_>,
        input: Option<Located<'_>>,
        more: &[&'static str],
    ) -> Option<RunOf> {
        let workflow = self.entity_name(place, "workflow name");
        if let (Some(name), Some(known)) = (&workflow, &self.known.workflows)
            && !known.contains(name.as_str())
        {
            self.warn(place, "unknown_workflow", format!("no workflow {:?} is known yet", name.as_str()));
        }
        let input = input.map(|place| {
            let is_object = matches!(&place.node.kind, Kind::Object(_));
            if !is_object && Self::is_plain(&place.node.to_value()) {
                self.wrong_type(&place, "an object, or an expression that gives one");
            }
            self.look_for_secrets(&place);
            self.template(&place, more)
        });
        match input {
            Some(None) => None,
            Some(Some(input)) => Some(RunOf { workflow: workflow?, input: Some(input) }),
            None => Some(RunOf { workflow: workflow?, input: None }),
        }
    }

    fn action_request(&mut self, place: &Located<'_>, has_table: bool) -> Option<ActionRequest> {
        let mut fields = self.object(place)?;
        let request = self.request(&mut fields, &[]);
        let timeout = fields.take("timeout");
        let timeout = self.http_timeout(timeout);
        let output = fields.take("output");
        let output = self.maybe_template(output, OF_ANSWER);
        let data = fields.take("data");
        if let Some(place) = &data {
            if has_table {
                let message = "the entities live in your own table, which only your code writes; remove \"table\" or this";
                self.error(place, "data_not_kept", message);
            }
            let is_object = matches!(&place.node.kind, Kind::Object(_));
            if !is_object && Self::is_plain(&place.node.to_value()) {
                self.wrong_type(place, "an object, or an expression that gives one");
            }
        }
        let data = self.maybe_template(data, OF_ANSWER);
        self.finish(fields, "a request", &[fields::REQUEST, fields::ACTION_REQUEST]);
        Some(ActionRequest { request: request?, timeout, output, data })
    }

    fn after_effect(&mut self, place: &Located<'_>, more: &[&'static str]) -> Option<AfterEffect> {
        if let Kind::Text(_) = &place.node.kind {
            return self.target(place).map(AfterEffect::Target);
        }
        let mut fields = self.object_or(place, "the name of a target, or an object")?;
        let given: Vec<(&str, Located<'_>)> =
            fields::AFTER_EFFECTS.iter().filter_map(|word| Some((*word, fields.take(word)?))).collect();
        let [(kind, given)] = given.as_slice() else {
            let message = format!("an after-effect is one of: {}", fields::AFTER_EFFECTS.join(", "));
            self.error(place, "one_of", message);
            return None;
        };
        match *kind {
            "target" => {
                self.finish(fields, "an after-effect with a target", &[&["target"]]);
                self.target(given).map(AfterEffect::Target)
            }
            "workflow" => {
                let input = fields.take("input");
                self.finish(fields, "a workflow as an after-effect", &[fields::RUN_OF]);
                self.run_of(given, input, more).map(AfterEffect::Workflow)
            }
            _ => {
                self.finish(fields, "an after-effect that is a request", &[&["http"]]);
                let mut fields = self.object(given)?;
                let request = self.request(&mut fields, more);
                let timeout = fields.take("timeout");
                let timeout = self.timeout_up_to(MAX_AFTER_EFFECT_TIMEOUT, timeout);
                self.finish(fields, "a request", &[fields::REQUEST, fields::AFTER_REQUEST]);
                Some(AfterEffect::Http(Box::new(AfterRequest { request: request?, timeout })))
            }
        }
    }

    fn target(&mut self, place: &Located<'_>) -> Option<Name> {
        let name = self.entity_name(place, "target")?;
        if [HTTP_TARGET, WORKFLOW_TARGET].contains(&name.as_str()) {
            let message = "it is what requests and runs go through; write { http: … } or { workflow: … }";
            self.error(place, "reserved_name", message);
            return None;
        }
        Some(name)
    }

    fn validations(&mut self, place: &Located<'_>) -> Option<Vec<Validation>> {
        let Kind::List(_) = &place.node.kind else {
            return self.validation(place).map(|validation| vec![validation]);
        };
        let items = self.list(place)?;
        if !(1..=MAX_VALIDATIONS).contains(&items.len()) {
            self.error(place, "out_of_range", format!("there must be 1 to {MAX_VALIDATIONS} conditions"));
            return None;
        }
        let validations: Vec<_> = items.iter().map(|item| self.validation(item)).collect();
        validations.into_iter().collect()
    }

    fn validation(&mut self, place: &Located<'_>) -> Option<Validation> {
        let mut fields = self.object_or(place, "an object with \"when\" and \"message\"")?;
        let when = self.need(&mut fields, "when").and_then(|place| self.condition(&place, &[]));
        let message = self.need(&mut fields, "message").and_then(|place| self.text_template(&place));
        let code = fields.take("code").map(|place| self.name(&place, "code", 0));
        self.finish(fields, "a validation", &[fields::VALIDATION]);
        match code {
            Some(None) => None,
            Some(code) => Some(Validation { when: when?, message: message?, code }),
            None => Some(Validation { when: when?, message: message?, code: None }),
        }
    }
}

/// Placeholder for a step that cannot be read, with a unique id and key.
fn unreadable(at: usize) -> Option<StepFound> {
    let below_all = u32::try_from(at).unwrap_or_default();
    let step = EntityStep {
        id: u32::MAX - below_all,
        key: Name::new("step_key", &format!("..{at}..")).ok()?,
        status: PerRequester::By(BTreeMap::new()),
        successful_state: PerRequester::By(BTreeMap::new()),
        action: None,
        claim: None,
        recovery: None,
        irreversible: None,
        key_required: None,
        retry: None,
        success_after_effect: None,
        failure_after_effect: None,
        idempotent: None,
    };
    Some(StepFound { step, details: StepDetails::default(), is_broken: true })
}

fn mapped<T, U>(field: &PerRequester<T>, to: impl Fn(&T) -> Option<U>) -> PerRequester<U> {
    match field {
        PerRequester::All(value) => match to(value) {
            Some(value) => PerRequester::All(value),
            None => PerRequester::By(BTreeMap::new()),
        },
        PerRequester::By(values) => PerRequester::By(
            values.iter().filter_map(|(name, value)| Some((name.clone(), to(value)?))).collect(),
        ),
    }
}

/// The action in the model.
fn model_action(action: &StepAction) -> Option<Action> {
    match action {
        StepAction::Handler { name, transaction } => {
            Some(Action::Handler { name: name.clone(), transaction: *transaction })
        }
        StepAction::Workflow(run) => Some(Action::Workflow(run.workflow.clone())),
        StepAction::Http(_) => Name::new("action", HTTP_ACTION).ok().map(Action::Hosted),
    }
}

/// The target in the model.
fn model_target(after: &AfterEffect) -> Option<Name> {
    match after {
        AfterEffect::Target(name) => Some(name.clone()),
        AfterEffect::Workflow(_) => Name::new("target", WORKFLOW_TARGET).ok(),
        AfterEffect::Http(_) => Name::new("target", HTTP_TARGET).ok(),
    }
}
