//! Approvals: a step asks people, and the first allowed answer decides.
//!
//! An answer is a signal with a name that belongs to the step: signals are stored, wake the run, and do not end the
//! wait if the answer is not allowed. The host takes the answer's author from the caller's identity, never from the
//! request, and accepts signals with such names in no other way.

use std::fmt;

use hapax_engine::Failure;
use hapax_engine::model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Runner;
use crate::limits::{MAX_COMMENT_CHARS, MAX_REFUSED_ANSWERS};
use crate::model::{Approval, Decision, Step};
use crate::problem::excerpt;
use crate::scope::Scope;

/// Prefix of signals that answer approvals.
pub const APPROVAL_SIGNAL: &str = "approval.";

/// The signal that answers the approval of this step, named like its record (`sign-off`, or `sign-off.2` in a loop).
pub fn approval_signal(step: &str) -> String {
    format!("{APPROVAL_SIGNAL}{step}")
}

/// An answer to an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The decision.
    pub decision: Decision,
    /// Author of the answer.
    pub by: Decider,
    /// Comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Edited values: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Author of a decision.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decider {
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// Reason why an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerRefused {
    /// This person may not decide.
    ForOthers,
    /// The answer is not valid for this step.
    Unfit(String),
}

impl fmt::Display for AnswerRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerRefused::ForOthers => f.write_str("this is for others to decide"),
            AnswerRefused::Unfit(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for AnswerRefused {}

/// Checks whether an answer is allowed. Call it before sending the answer, to report the reason to the caller.
pub fn check_answer(approval: &Approval, answer: &Value) -> Result<Answer, AnswerRefused> {
    let unfit = |why: String| Err(AnswerRefused::Unfit(why));
    let answer: Answer = match serde_json::from_value(answer.clone()) {
        Ok(answer) => answer,
        Err(error) => {
            let error = excerpt(&error.to_string());
            return unfit(format!("it is not an answer ({error}): {{decision, by, comment?, value?}}"));
        }
    };
    if !approval.decisions().contains(&answer.decision) {
        let words: Vec<&str> = approval.decisions().iter().map(|decision| decision.as_str()).collect();
        return unfit(format!(
            "{:?} cannot be decided here, only: {}",
            answer.decision.as_str(),
            words.join(", ")
        ));
    }
    if let Some(by) = &approval.by {
        let in_role = answer.by.roles.iter().any(|role| by.roles.contains(role));
        let by_name = answer.by.requester.as_ref().is_some_and(|requester| by.requesters.contains(requester));
        if !in_role && !by_name {
            return Err(AnswerRefused::ForOthers);
        }
    }
    if answer.comment.as_ref().is_some_and(|comment| comment.chars().count() > MAX_COMMENT_CHARS) {
        return unfit(format!("a comment has at most {MAX_COMMENT_CHARS} characters"));
    }
    match (answer.decision, &answer.value) {
        (Decision::Edit, Some(Value::Object(given))) => {
            let allowed =
                |field: &&String| approval.fields.as_ref().is_none_or(|fields| fields.contains(field));
            if let Some(field) = given.keys().find(|field| !allowed(field)) {
                return unfit(format!("the field {:?} cannot be edited", excerpt(field)));
            }
        }
        (Decision::Edit, _) => {
            return unfit("an edit needs a value: an object with the fields it gives".into());
        }
        (Decision::Approve | Decision::Reject, Some(_)) => return unfit("only an edit has a value".into()),
        (Decision::Approve | Decision::Reject, None) => {}
    }
    Ok(answer)
}

impl Runner<'_> {
    pub(super) async fn approval(
        self,
        step: &Step,
        approval: &Approval,
        scope: &Scope,
    ) -> Result<Value, Failure> {
        let name = scope.name(&step.name);
        let show = match &approval.show {
            Some(show) => self.render(step, show, scope).await?,
            None => Value::Null,
        };
        // Record the question, so that people can see it.
        let asked = json!({
            "show": show,
            "by": approval.by,
            "decisions": approval.decisions(),
            "fields": approval.fields,
            "signal": approval_signal(&name),
        });
        let _: Value = self.ctx.remember(&format!("{name}.asked"), || asked)?;
        let deadline = match approval.timeout {
            Some(timeout) => Some(self.ctx.now().await?.plus(timeout.get())),
            None => None,
        };
        for refused in 0..=MAX_REFUSED_ANSWERS {
            let answer = match self.next_answer(&name, refused, deadline, approval).await {
                Ok(answer) => answer,
                Err(failure) if failure.code() == Some("timed_out") && approval.continue_on_timeout => {
                    return Ok(json!({ "decision": "timed_out" }));
                }
                Err(failure) => return Err(failure),
            };
            let Ok(answer) = check_answer(approval, &answer) else { continue };
            if answer.decision == Decision::Reject && !approval.continue_on_reject {
                let who = answer.by.requester.as_deref().unwrap_or("somebody");
                let why = answer.comment.as_deref().unwrap_or("no reason given");
                return Err(Failure::permanent(format!("{who} rejected {name}: {why}")).with_code("rejected"));
            }
            return serde_json::to_value(answer).map_err(Failure::from);
        }
        let text =
            format!("{name} was answered {MAX_REFUSED_ANSWERS} times and more by others than those who may");
        Err(Failure::permanent(text).with_code("too_many_answers"))
    }

    /// The next answer within the remaining time. An answer that does not count does not extend it.
    async fn next_answer(
        self,
        name: &str,
        refused: usize,
        deadline: Option<Timestamp>,
        approval: &Approval,
    ) -> Result<Value, Failure> {
        let wait = self.ctx.signal::<Value>(&approval_signal(name)).recorded_as(name);
        match (deadline, approval.timeout) {
            (Some(_), Some(timeout)) if refused == 0 => wait.timeout(timeout.get()).await,
            (Some(deadline), _) => {
                let left = deadline.since(self.ctx.now().await?);
                wait.timeout(left).await
            }
            (None, _) => wait.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Deciders;

    fn approval() -> Approval {
        Approval {
            by: Some(Deciders { roles: vec!["manager".into()], requesters: vec!["ada".into()] }),
            decisions: Some(vec![Decision::Approve, Decision::Edit]),
            show: None,
            fields: Some(vec!["amount".into()]),
            timeout: None,
            continue_on_reject: false,
            continue_on_timeout: false,
            self_approval: false,
        }
    }

    #[test]
    fn an_answer_counts_if_its_author_and_its_content_are_allowed() {
        let by_role = json!({ "decision": "approve", "by": { "roles": ["viewer", "manager"] } });
        assert!(check_answer(&approval(), &by_role).is_ok());
        let by_name = json!({ "decision": "edit", "by": { "requester": "ada" }, "value": { "amount": 5 } });
        assert_eq!(check_answer(&approval(), &by_name).unwrap().value, Some(json!({ "amount": 5 })));
        for (answer, why) in [
            (json!("approve"), "not an answer"),
            (json!({ "decision": "approve" }), "not an answer"),
            (json!({ "decision": "maybe", "by": {} }), "not an answer"),
            (json!({ "decision": "approve", "by": {}, "extra": 1 }), "not an answer"),
            (json!({ "decision": "reject", "by": { "requester": "ada" } }), "only: approve, edit"),
            (json!({ "decision": "approve", "by": { "requester": "bob" } }), "for others"),
            (json!({ "decision": "approve", "by": {} }), "for others"),
            (json!({ "decision": "approve", "by": { "requester": "ada" }, "value": {} }), "only an edit"),
            (json!({ "decision": "edit", "by": { "requester": "ada" } }), "needs a value"),
            (json!({ "decision": "edit", "by": { "requester": "ada" }, "value": 5 }), "needs a value"),
            (
                json!({ "decision": "edit", "by": { "requester": "ada" }, "value": { "payee": "x" } }),
                "cannot be edited",
            ),
            (
                json!({ "decision": "approve", "by": { "requester": "ada" }, "comment": "x".repeat(5_000) }),
                "characters",
            ),
        ] {
            let refused = check_answer(&approval(), &answer).unwrap_err();
            assert!(refused.to_string().contains(why), "{answer}: {refused}");
            assert_eq!(refused == AnswerRefused::ForOthers, why == "for others", "{answer}");
        }
    }
}
