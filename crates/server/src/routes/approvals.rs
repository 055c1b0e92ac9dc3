//! Answers to the approvals that documents ask for.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_documents::model::{Approval, Step, StepKind};
use hapax_documents::{AnswerRefused, approval_signal, check_answer};
use hapax_engine::model::Payload;
use hapax_engine::runtime::ApprovalAnswer;
use hapax_http_idempotency::OperationId;
use serde_json::json;

use super::request::{Caller, PathOf};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::strict_json::StrictJson;

/// Answers an approval under the role and the requester of the credential; the document decides if
/// they may.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((id, step)): PathOf<(String, String)>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::AnswerApproval>,
) -> Result<Json<api::SentSignal>, Refused> {
    let run = run_id(&id)?;
    let engine = app.engine_for(&identity);
    let facts = engine.get(run).await.map_err(|error| problem_of(&error))?.head.facts;
    let absent = || Refused::new(Code::NotFound, "The run has no approval step of this name.");
    let definition = match app.definitions.get_document(&facts.workspace, &facts.workflow).await {
        Err(problem) if problem.code == Code::DefinitionNotFound => return Err(absent()),
        found => found?,
    };
    let approval = find_approval(&definition.document().steps, &step).ok_or_else(absent)?;
    let mut by = json!({ "roles": [identity.role.as_str()] });
    by["requester"] = identity.requester.as_deref().unwrap_or(&identity.name).into();
    let mut answer = json!({ "decision": asked.decision, "by": by });
    if let Some(comment) = &asked.comment {
        answer["comment"] = comment.as_str().into();
    }
    if let Some(value) = asked.value {
        let read = |_| Refused::new(Code::InvalidRequest, "`value` cannot be read.").with("path", "/value");
        answer["value"] = serde_json::from_str(value.text()).map_err(read)?;
    }
    check_answer(approval, &answer).map_err(|why| not_counted(approval, &why))?;
    let payload = Payload::of(&answer).map_err(|invalid| problem_of_invalid(&invalid))?;
    let answered = engine.answer_approval(ApprovalAnswer {
        run,
        signal: approval_signal(&step),
        step,
        payload,
        by: identity.actor(None),
        starter_may_answer: approval.self_approval,
        decision: answer["decision"].as_str().unwrap_or_default().to_owned(),
        comment: asked.comment,
        request: operation.map(|Extension(OperationId(id))| id.to_string()),
    });
    answered.await.map_err(|error| problem_of(&error))?;
    Ok(Json(api::SentSignal { run_id: run.to_string(), stored: true }))
}

fn not_counted(approval: &Approval, why: &AnswerRefused) -> Refused {
    let detail = format!("The answer does not count: {why}.");
    match why {
        AnswerRefused::ForOthers => {
            Refused::new(Code::ApprovalForOthers, detail).with("by", json!(approval.by))
        }
        AnswerRefused::Unfit(_) => Refused::new(Code::InvalidRequest, detail),
    }
}

/// Does a run of this document, or a run below it, exclude the person who had it started from answering?
pub(crate) fn excludes_starter(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Approval(approval) => !approval.self_approval,
        // The child may ask.
        StepKind::Child(_) => true,
        StepKind::Condition(condition) => {
            excludes_starter(&condition.then) || excludes_starter(&condition.otherwise)
        }
        StepKind::Parallel(parallel) => parallel.branches.iter().any(|branch| excludes_starter(branch)),
        StepKind::ForEach(each) => excludes_starter(&each.steps),
        StepKind::Task(_)
        | StepKind::Http(_)
        | StepKind::Wait(_)
        | StepKind::Promise(_)
        | StepKind::Signal(_) => false,
    })
}

/// The approval of the step with this name, at any depth of the document. Within `for_each`, the
/// name of a step ends with the position of its item.
fn find_approval<'a>(steps: &'a [Step], name: &str) -> Option<&'a Approval> {
    steps.iter().find_map(|step| match &step.kind {
        StepKind::Approval(approval) => {
            let rest = name.strip_prefix(step.name.as_str())?;
            let is_item = rest.split('.').skip(1).all(|place| place.parse::<usize>().is_ok());
            (rest.is_empty() || (rest.starts_with('.') && is_item)).then_some(approval)
        }
        StepKind::Condition(condition) => {
            find_approval(&condition.then, name).or_else(|| find_approval(&condition.otherwise, name))
        }
        StepKind::Parallel(parallel) => {
            parallel.branches.iter().find_map(|branch| find_approval(branch, name))
        }
        StepKind::ForEach(each) => find_approval(&each.steps, name),
        StepKind::Task(_)
        | StepKind::Http(_)
        | StepKind::Wait(_)
        | StepKind::Promise(_)
        | StepKind::Signal(_)
        | StepKind::Child(_) => None,
    })
}
