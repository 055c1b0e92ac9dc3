//! Calls of a step to its host: evaluates conditions, fills in requests and reads answers.

use std::time::Duration;

use hapax_engine::model::{ANSWER_UNUSABLE, Name, OperationEnd, Payload, PerRequester, ProbeAnswer};
use hapax_engine::{Failure, Hold};
use serde_json::{Value, json};

use super::{ActionRequest, AfterEffect, EntityDocument, RunOf, StepAction, Validation};
use crate::evaluation_slots::evaluate_fairly;
use crate::host_services::{HttpAnswer, HttpCall, HttpFault, WorkspaceServices};
use crate::limits::{DEFAULT_HTTP_TIMEOUT, HTTP_GRACE, MAX_REJECTION_CHARS};
use crate::model::Probe;
use crate::run::excerpt::AnswerExcerpt;
use crate::run::http::{ask_probe, failure_of, judge, prepare, span_of};
use crate::scope::Scope;
use crate::template::Template;

/// Variables of the expressions of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntityCall {
    /// `{type, id, status, version, data}`.
    pub entity: Value,
    /// The caller's input.
    pub input: Value,
    /// The requester; null if there is none.
    pub requester: Value,
    /// `{id, key, attempt}`.
    pub operation: Value,
}

/// Reason why a step is refused before its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Message.
    pub message: String,
    /// Code: `validation_failed` unless the document sets another.
    pub code: String,
}

/// End of a step, as after-effects distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was done.
    Success,
    /// It failed or was rejected.
    Failure,
}

/// An after-effect, ready to execute.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedAfterEffect {
    /// Delivers the outbox payload to a target.
    Target(Name),
    /// Sends a request.
    Http(HttpCall),
    /// Starts a run under the key of the after-effect, so that there is only one.
    Workflow {
        /// Name of the workflow.
        workflow: Name,
        /// An object.
        input: Value,
    },
}

impl EntityCall {
    fn scope(&self) -> Scope {
        Scope::new(self.input.clone(), Value::Null)
            .with("entity", self.entity.clone())
            .with("requester", self.requester.clone())
            .with("operation", self.operation.clone())
    }
}

fn of<'a, T>(field: &'a Option<PerRequester<T>>, requester: Option<&Name>) -> Option<&'a T> {
    field.as_ref().and_then(|field| field.find(requester))
}

impl EntityDocument {
    /// Checks the conditions of the step. Returns the message of the first one that does not hold.
    pub fn check_call(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
    ) -> Result<(), Rejection> {
        let validations = self.find_details(step).and_then(|details| of(&details.validation, requester));
        let scope = call.scope();
        validations.into_iter().flatten().try_for_each(|validation| check_validation(validation, &scope))
    }

    /// Fills in the request of a step whose action is one. `key` is the operation's effect key. After any error here,
    /// nothing was sent.
    pub async fn plan_http(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
        key: &str,
        services: WorkspaceServices<'_>,
    ) -> Result<HttpCall, Failure> {
        let action = self.get_request(step, requester)?;
        prepare(services, &action.request, &call.scope(), key, action.timeout).await
    }

    /// Decides how the operation ends, from the response to `sent` or the lack of one.
    pub fn judge_http(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
        sent: &HttpCall,
        answer: Result<HttpAnswer, HttpFault>,
    ) -> OperationEnd {
        self.judge_answer(step, requester, call, &sent.excerpt, answer)
    }

    fn judge_answer(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
        excerpt: &AnswerExcerpt,
        answer: Result<HttpAnswer, HttpFault>,
    ) -> OperationEnd {
        let action = match self.get_request(step, requester) {
            Ok(action) => action,
            Err(failure) => return OperationEnd::Failed(failure),
        };
        // An incomplete answer or a 5xx may have had its effect, whatever class the document declares: the class only
        // decides what to do next.
        let may_have_happened = true;
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => return OperationEnd::Failed(failure_of(fault, excerpt, may_have_happened)),
        };
        match judge(&action.request, excerpt, &answer, may_have_happened) {
            Ok(response) => read_done(action, call, response),
            Err(failure) if is_rejection(action, answer.status) => {
                OperationEnd::Rejected(told_by_service(excerpt, &answer, &failure))
            }
            Err(failure) => OperationEnd::Failed(failure),
        }
    }

    /// Time for the request of a step, including its answer; zero if its action is not a request.
    pub fn action_timeout(&self, step: &str, requester: Option<&Name>) -> Duration {
        self.get_request(step, requester)
            .map_or(Duration::ZERO, |action| span_of(action.timeout) + HTTP_GRACE)
    }

    /// Time that must pass, after the last moment the action could have been sent, before a "did not happen" of its
    /// probe counts. `None` without a probe.
    pub fn probe_settle(&self, step: &str, requester: Option<&Name>) -> Option<Duration> {
        let probe = self.find_probe(step, requester)?;
        // By default longer than the request and the provider's work after it can take.
        let unless_said = self.action_timeout(step, requester).max(DEFAULT_HTTP_TIMEOUT) * 2;
        Some(probe.settle.map_or(unless_said, |settle| span_of(Some(settle))))
    }

    /// Asks the provider, by the effect key, whether the action of a step happened. If it cannot be asked or
    /// understood, the outcome is unknown.
    pub async fn probe(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
        key: &str,
        services: WorkspaceServices<'_>,
    ) -> ProbeAnswer<Value> {
        match self.find_probe(step, requester) {
            Some(probe) => ask_probe(services, probe, key, &call.scope(), Hold::unlimited()).await,
            None => ProbeAnswer::Unknown,
        }
    }

    fn find_probe(&self, step: &str, requester: Option<&Name>) -> Option<&Probe> {
        of(&self.find_details(step)?.probe, requester)
    }

    /// Executes the request: fills it in, sends it while the hold is valid, with the holder's fence, and reads the
    /// answer.
    pub async fn call_http(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
        key: &str,
        right: (Hold, u64),
        services: WorkspaceServices<'_>,
    ) -> OperationEnd {
        match self.plan_http(step, requester, call, key, services).await {
            Ok(sent) => {
                let (hold, fence) = right;
                let excerpt = sent.excerpt.clone();
                let answer = services.send(sent.held_by(hold, fence)).await;
                let judge = || self.judge_answer(step, requester, call, &excerpt, answer.clone());
                evaluate_fairly(services.workspace(), judge).await
            }
            Err(failure) => OperationEnd::Failed(failure),
        }
    }

    /// The input of the run that carries out a step, if a run does: an object. Without a template it contains
    /// everything that expressions see.
    pub fn plan_workflow_input(
        &self,
        step: &str,
        requester: Option<&Name>,
        call: &EntityCall,
    ) -> Result<Value, Failure> {
        match self.find_details(step).and_then(|details| of(&details.action, requester)) {
            Some(StepAction::Workflow(run)) => {
                let all = json!({
                    "entity": call.entity,
                    "input": call.input,
                    "requester": call.requester,
                    "operation": call.operation,
                });
                input_of(run, &call.scope(), all)
            }
            _ => Err(not_here(step, "is not carried out by a run")),
        }
    }

    /// Renders the after-effect of a step. `payload` is the payload of the outbox message: `{entity, operation, step,
    /// requester, status, result or failure, input}`, all visible to expressions. `key` is its key.
    pub async fn plan_after_effect(
        &self,
        step: &str,
        requester: Option<&Name>,
        ended: Ended,
        payload: &Value,
        key: &str,
        services: WorkspaceServices<'_>,
    ) -> Result<PlannedAfterEffect, Failure> {
        let scope = scope_of(payload, ended);
        match self.get_after_effect(step, requester, ended)? {
            AfterEffect::Target(name) => Ok(PlannedAfterEffect::Target(name.clone())),
            AfterEffect::Workflow(run) => {
                let plan = || input_of(run, &scope, payload.clone());
                let input = evaluate_fairly(services.workspace(), plan).await?;
                Ok(PlannedAfterEffect::Workflow { workflow: run.workflow.clone(), input })
            }
            AfterEffect::Http(http) => prepare(services, &http.request, &scope, key, http.timeout)
                .await
                .map(PlannedAfterEffect::Http),
        }
    }

    /// Decides whether `sent`, the request of an after-effect, was accepted. If not, the class of the failure says
    /// whether the outbox may retry. It may retry after an incomplete answer, because the key prevents a second effect.
    pub fn judge_after_effect(
        &self,
        step: &str,
        requester: Option<&Name>,
        ended: Ended,
        sent: &HttpCall,
        answer: Result<HttpAnswer, HttpFault>,
    ) -> Result<(), Failure> {
        match self.get_after_effect(step, requester, ended)? {
            AfterEffect::Http(http) => match answer {
                Ok(answer) => judge(&http.request, &sent.excerpt, &answer, false).map(drop),
                Err(fault) => Err(failure_of(fault, &sent.excerpt, false)),
            },
            AfterEffect::Target(_) | AfterEffect::Workflow(_) => {
                Err(not_here(step, "sends no request afterwards"))
            }
        }
    }

    fn get_request(&self, step: &str, requester: Option<&Name>) -> Result<&ActionRequest, Failure> {
        match self.find_details(step).and_then(|details| of(&details.action, requester)) {
            Some(StepAction::Http(action)) => Ok(action),
            Some(StepAction::Handler { .. } | StepAction::Workflow(_)) | None => {
                Err(not_here(step, "is not a request"))
            }
        }
    }

    fn get_after_effect(
        &self,
        step: &str,
        requester: Option<&Name>,
        ended: Ended,
    ) -> Result<&AfterEffect, Failure> {
        let details = self.find_details(step).ok_or_else(|| not_here(step, "is not a step of it"))?;
        let after = match ended {
            Ended::Success => &details.success_after_effect,
            Ended::Failure => &details.failure_after_effect,
        };
        of(after, requester).ok_or_else(|| not_here(step, "has no such after-effect"))
    }
}

/// For example because the document has changed.
fn not_here(step: &str, why: &str) -> Failure {
    let text = format!("the step {step:?} of the entity workflow {why}; was the document changed meanwhile?");
    Failure::permanent(text).with_code("document_changed")
}

fn check_validation(validation: &Validation, scope: &Scope) -> Result<(), Rejection> {
    let refuse = |message: String, code: &str| Err(Rejection { message, code: code.to_string() });
    match validation.when.holds(scope) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = match validation.message.render(scope) {
                Ok(Value::String(text)) => text,
                Ok(other) => other.to_string(),
                // It is still refused, with the document's message.
                Err(_) => validation.message.source().as_str().unwrap_or("it does not hold").to_string(),
            };
            let message = message.chars().take(MAX_REJECTION_CHARS).collect();
            refuse(message, validation.code.as_deref().unwrap_or("validation_failed"))
        }
        Err(failed) => {
            refuse(format!("a condition of the step cannot be judged: {}", failed.0), "expression_failed")
        }
    }
}

fn scope_of(payload: &Value, ended: Ended) -> Scope {
    let field = |name: &str| payload.get(name).cloned().unwrap_or(Value::Null);
    let scope = Scope::new(field("input"), Value::Null)
        .with("entity", field("entity"))
        .with("requester", field("requester"))
        .with("operation", field("operation"))
        .with("status", field("status"));
    match ended {
        Ended::Success => scope.with("result", field("result")),
        Ended::Failure => scope.with("failure", field("failure")),
    }
}

fn input_of(run: &RunOf, scope: &Scope, all: Value) -> Result<Value, Failure> {
    let input = match &run.input {
        Some(input) => input.render(scope)?,
        None => all,
    };
    match input.is_object() {
        true => Ok(input),
        false => Err(Failure::permanent("the input of a run is an object; the template gave something else")
            .with_code("input_mismatch")),
    }
}

/// Statuses after which the same call may succeed later, or whose outcome is unknown.
const NO_REJECTIONS: &[u16] = &[408, 409, 425, 429];

fn is_rejection(action: &ActionRequest, status: u16) -> bool {
    let may_go_well = action.request.retryable.iter().flatten().any(|known| known.covers(status));
    (400..500).contains(&status) && !NO_REJECTIONS.contains(&status) && !may_go_well
}

/// The service's reason, if it sends problem details (RFC 9457).
fn told_by_service(excerpt: &AnswerExcerpt, answer: &HttpAnswer, failure: &Failure) -> Failure {
    let kind = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_problem = kind.is_some_and(|(_, kind)| kind.to_ascii_lowercase().contains("problem+json"));
    let problem: Value = match is_problem {
        true => serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
        false => Value::Null,
    };
    let text = |field: &str| problem.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = text("detail").or_else(|| text("title")).unwrap_or(failure.message());
    let message: String = excerpt.clean(message, answer).chars().take(MAX_REJECTION_CHARS).collect();
    let code = text("code").filter(|code| Name::new("code", code).is_ok());
    Failure::permanent(message).with_code(code.or(failure.code()).unwrap_or("rejected"))
}

/// The action happened. If its answer cannot be used, a person must look up the result.
fn read_done(action: &ActionRequest, call: &EntityCall, response: Value) -> OperationEnd {
    let body = response.get("body").cloned().unwrap_or(Value::Null);
    let unusable = |why: String| {
        let text = format!("it happened, and its answer could not be used: {why}");
        OperationEnd::Failed(Failure::unknown(text).with_code(ANSWER_UNUSABLE))
    };
    let scope = call.scope().with("result", body.clone()).with("response", response);
    let rendered = |template: &Template| template.render(&scope).map_err(|failed| failed.0);
    let stored = |value: &Value| Payload::of(value).map_err(|invalid| invalid.to_string());
    let result = match &action.output {
        Some(output) => rendered(output),
        None => Ok(body),
    };
    let result = match result.and_then(|result| stored(&result)) {
        Ok(result) => result,
        Err(why) => return unusable(why),
    };
    let data = match action.data.as_ref().map(rendered) {
        None => None,
        Some(Ok(data)) if data.is_object() => match stored(&data) {
            Ok(data) => Some(data),
            Err(why) => return unusable(why),
        },
        Some(Ok(_)) => return unusable("data must come out as an object".into()),
        Some(Err(why)) => return unusable(why),
    };
    OperationEnd::Done { result, data }
}
