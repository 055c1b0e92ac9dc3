//! One method per route.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    AddNote, AnswerApproval, CancelRun, ChangeDefinition, ConfirmRuling, CreateCredential, CreateRun,
    CreateRunBatch, CreateWorkspace, CreatedRun, CreatedRunBatch, Credential, Definition, DefinitionSummary,
    Doubt, Health, IdempotencyPolicy, IssuedCredential, JournalEntry, KeyRecord, KeyScope, LedgerEntry, Page,
    ProposedRuling, Readiness, ReleaseKey, ResolveDoubt, ResolvedDoubt, RetryPlan, RetryRun, RevealRun,
    RevokeCredential, RotateCredential, Run, RunDetail, RunEvent, RunResult, RunStatus, SendSignal,
    SentSignal, SteerRun, Workspace,
};

/// Characters that a path segment or a query may hold unencoded.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Position and size of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paging {
    /// Most items on the page; the server has a default and a maximum.
    pub limit: Option<usize>,
    /// Cursor from the page before.
    pub cursor: Option<String>,
}

/// Which entries of the audit log to list. Absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Id of the credential.
    pub credential: Option<String>,
    /// The person named in the request, or the name of the credential.
    pub name: Option<String>,
    /// Action, spelled like `what` of an entry.
    pub action: Option<String>,
    /// The run it is about.
    pub run: Option<String>,
    /// The entity it is about: its type, a slash and its id.
    pub entity: Option<String>,
    /// The promise it is about.
    pub promise: Option<String>,
    /// The key it is about: its scope, a slash and the key.
    pub key: Option<String>,
    /// Not before this time.
    pub since: Option<String>,
    /// Before this time.
    pub until: Option<String>,
}

impl AuditFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("credential", &self.credential),
            ("name", &self.name),
            ("action", &self.action),
            ("run", &self.run),
            ("entity", &self.entity),
            ("promise", &self.promise),
            ("key", &self.key),
            ("since", &self.since),
            ("until", &self.until),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Filter for a list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// With one of these statuses; all if empty.
    pub statuses: Vec<RunStatus>,
    /// Of this workflow: `order` for all versions, `order@2` for version 2.
    pub workflow: Option<String>,
    /// With this subject.
    pub subject: Option<String>,
    /// Named by this idempotency key.
    pub key: Option<String>,
    /// Created at this time or later.
    pub since: Option<String>,
    /// Created before this time.
    pub until: Option<String>,
    /// With this current step.
    pub current_step: Option<String>,
    /// Only runs that wait for this: `promise:KEY`, `promise:ID`, `signal:NAME`, `child` or `timer`.
    pub waits_for: Option<String>,
    /// Only runs that wait for a person to act.
    pub needs_attention: bool,
}

/// A resource, and whether this request created it.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedOrExisting<T> {
    /// The resource.
    pub value: T,
    /// Was it created now? `false`: it already existed, unchanged.
    pub is_new: bool,
}

/// A document as text.
#[derive(Debug, Clone, Copy)]
pub enum Document<'a> {
    /// Written in JSON.
    Json(&'a str),
    /// Written in YAML.
    Yaml(&'a str),
}

/// Definitions.
impl Client {
    /// Uploads a definition.
    pub async fn upload_definition(
        &self,
        document: Document<'_>,
        options: RequestOptions,
    ) -> Result<CreatedOrExisting<Definition>, ClientError> {
        let path = "/api/v1/workflow-definitions".to_owned();
        self.make(match document {
            Document::Json(text) => Ask::change_text(path, "application/json", text, options)?,
            Document::Yaml(text) => Ask::change_text(path, "application/yaml", text, options)?,
        })
        .await
    }

    /// Definitions, in the order of their ids.
    pub async fn list_definitions(&self, paging: &Paging) -> Result<Page<DefinitionSummary>, ClientError> {
        self.page("/api/v1/workflow-definitions".into(), paging, &[]).await
    }

    /// Archives a definition, or takes it out of the archive.
    pub async fn change_definition(
        &self,
        id: &str,
        change: &ChangeDefinition,
        options: RequestOptions,
    ) -> Result<Definition, ClientError> {
        let path = format!("/api/v1/workflow-definitions/{}", segment(id)?);
        self.call(Ask::patch(path, change, options)?).await
    }

    /// Deletes a definition that no open run needs; answers with the definition as it was.
    pub async fn delete_definition(
        &self,
        id: &str,
        reason: Option<&str>,
        options: RequestOptions,
    ) -> Result<Definition, ClientError> {
        let path = format!("/api/v1/workflow-definitions/{}", segment(id)?);
        self.call(Ask::delete(with_reason(path, reason), options)?).await
    }

    /// One definition with its document.
    pub async fn get_definition(&self, id: &str) -> Result<Definition, ClientError> {
        self.call(Ask::read(format!("/api/v1/workflow-definitions/{}", segment(id)?))).await
    }
}

/// Runs.
impl Client {
    /// Starts a run, at most once per key.
    pub async fn create_run(
        &self,
        asked: &CreateRun,
        options: RequestOptions,
    ) -> Result<CreatedRun, ClientError> {
        self.call(Ask::change("/api/v1/workflow-runs".into(), asked, options)?).await
    }

    /// Starts a run without an idempotency key, so the request is sent once. A workflow that requires a key rejects it.
    pub async fn create_run_without_key(&self, request: &CreateRun) -> Result<CreatedRun, ClientError> {
        self.call(Ask::change_once("/api/v1/workflow-runs".into(), request)?).await
    }

    /// Starts several runs. Each succeeds or fails on its own.
    pub async fn create_runs(
        &self,
        asked: &CreateRunBatch,
        options: RequestOptions,
    ) -> Result<CreatedRunBatch, ClientError> {
        self.call(Ask::change("/api/v1/workflow-runs/batch".into(), asked, options)?).await
    }

    /// Runs, newest first.
    pub async fn list_runs(&self, filter: &RunFilter, paging: &Paging) -> Result<Page<Run>, ClientError> {
        let statuses: Vec<String> = filter.statuses.iter().map(spelled).collect();
        let mut query = Vec::new();
        if !statuses.is_empty() {
            query.push(("status", statuses.join(",")));
        }
        let texts = [
            ("workflow", &filter.workflow),
            ("subject", &filter.subject),
            ("key", &filter.key),
            ("since", &filter.since),
            ("until", &filter.until),
            ("currentStep", &filter.current_step),
            ("waitsFor", &filter.waits_for),
        ];
        query.extend(texts.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
        query.extend(filter.needs_attention.then(|| ("needsAttention", "true".to_owned())));
        self.page("/api/v1/workflow-runs".into(), paging, &query).await
    }

    /// One run with its steps.
    pub async fn get_run(&self, id: &str) -> Result<RunDetail, ClientError> {
        self.call(Ask::read(run_path(id, "")?)).await
    }

    /// Asks a run to undo what it can and end.
    pub async fn cancel_run(
        &self,
        id: &str,
        asked: &CancelRun,
        options: RequestOptions,
    ) -> Result<Run, ClientError> {
        self.call(Ask::change(run_path(id, "/cancel")?, asked, options)?).await
    }

    /// Asks a run to stop at the next boundary.
    pub async fn pause_run(
        &self,
        id: &str,
        asked: &SteerRun,
        options: RequestOptions,
    ) -> Result<Run, ClientError> {
        self.call(Ask::change(run_path(id, "/pause")?, asked, options)?).await
    }

    /// Lets a paused run go on.
    pub async fn resume_run(
        &self,
        id: &str,
        asked: &SteerRun,
        options: RequestOptions,
    ) -> Result<Run, ClientError> {
        self.call(Ask::change(run_path(id, "/resume")?, asked, options)?).await
    }

    /// Reopens a failed run.
    pub async fn retry_run(
        &self,
        id: &str,
        asked: &RetryRun,
        options: RequestOptions,
    ) -> Result<Run, ClientError> {
        self.call(Ask::change(run_path(id, "/retry")?, asked, options)?).await
    }

    /// What a retry would do to the effects of a failed run. Changes nothing.
    pub async fn plan_retry(&self, id: &str, from_step: Option<&str>) -> Result<RetryPlan, ClientError> {
        let query: Vec<_> = from_step.map(|step| ("fromStep", step.to_owned())).into_iter().collect();
        self.call(Ask::read(with_query(run_path(id, "/retry-plan")?, &query))).await
    }

    /// Sends a run a signal.
    pub async fn signal_run(
        &self,
        id: &str,
        asked: &SendSignal,
        options: RequestOptions,
    ) -> Result<SentSignal, ClientError> {
        self.call(Ask::change(run_path(id, "/signals")?, asked, options)?).await
    }

    /// Answers an approval that a run asks for.
    pub async fn answer_approval(
        &self,
        id: &str,
        step: &str,
        asked: &AnswerApproval,
        options: RequestOptions,
    ) -> Result<SentSignal, ClientError> {
        let path = run_path(id, &format!("/approvals/{}", segment(step)?))?;
        self.call(Ask::change(path, asked, options)?).await
    }

    /// Result of a run, after waiting up to `wait` for its end.
    pub async fn get_result(&self, id: &str, wait: Duration) -> Result<RunResult, ClientError> {
        let mut ask = Ask::read(run_path(id, "/result")?);
        if !wait.is_zero() {
            ask = ask.header("prefer", format!("wait={}", wait.as_secs()));
        }
        self.call(ask).await
    }

    /// Events of a run as a whole, oldest first.
    pub async fn list_events(&self, id: &str, paging: &Paging) -> Result<Page<RunEvent>, ClientError> {
        self.page(run_path(id, "/events")?, paging, &[]).await
    }
}

/// Evidence: effects, doubts, what people did.
impl Client {
    /// Every effect of one run.
    pub async fn list_ledger_of_run(&self, id: &str) -> Result<Page<LedgerEntry>, ClientError> {
        self.call(Ask::read(run_path(id, "/ledger")?)).await
    }

    /// The effects of one page of runs, newest run first, and of operations on entities after them.
    pub async fn list_ledger(&self, paging: &Paging) -> Result<Page<LedgerEntry>, ClientError> {
        self.page("/api/v1/ledger".into(), paging, &[]).await
    }

    /// The journal of one run, oldest first.
    pub async fn list_journal(&self, id: &str, paging: &Paging) -> Result<Page<JournalEntry>, ClientError> {
        self.page(run_path(id, "/notes")?, paging, &[]).await
    }

    /// Leaves a note on a run.
    pub async fn add_note(
        &self,
        id: &str,
        asked: &AddNote,
        options: RequestOptions,
    ) -> Result<JournalEntry, ClientError> {
        self.call(Ask::change(run_path(id, "/notes")?, asked, options)?).await
    }

    /// Actions of people in the workspace, oldest first.
    pub async fn list_audit(
        &self,
        filter: &AuditFilter,
        paging: &Paging,
    ) -> Result<Page<JournalEntry>, ClientError> {
        self.page("/api/v1/audit".into(), paging, &filter.query()).await
    }

    /// Effects in doubt without a ruling, the oldest doubt first.
    pub async fn list_doubts(&self, paging: &Paging) -> Result<Page<Doubt>, ClientError> {
        self.page("/api/v1/doubts".into(), paging, &[]).await
    }

    /// Shows a run with the fields that are masked otherwise. The audit log has it.
    pub async fn reveal_run(
        &self,
        run: &str,
        asked: &RevealRun,
        options: RequestOptions,
    ) -> Result<RunDetail, ClientError> {
        self.call(Ask::change(run_path(run, "/reveal")?, asked, options)?).await
    }

    /// Decides an effect in doubt.
    pub async fn resolve_doubt(
        &self,
        run: &str,
        step: &str,
        asked: &ResolveDoubt,
        options: RequestOptions,
    ) -> Result<ResolvedDoubt, ClientError> {
        let path = format!("/api/v1/doubts/{}/{}/resolve", segment(run)?, segment(step)?);
        self.call(Ask::change(path, asked, options)?).await
    }

    /// Proposes a decision about an effect in doubt, for another person to confirm.
    pub async fn propose_ruling(
        &self,
        run: &str,
        step: &str,
        asked: &ResolveDoubt,
        options: RequestOptions,
    ) -> Result<ProposedRuling, ClientError> {
        let path = format!("/api/v1/doubts/{}/{}/propose", segment(run)?, segment(step)?);
        self.call(Ask::change(path, asked, options)?).await
    }

    /// Confirms another person's proposal.
    pub async fn confirm_ruling(
        &self,
        run: &str,
        step: &str,
        asked: &ConfirmRuling,
        options: RequestOptions,
    ) -> Result<ResolvedDoubt, ClientError> {
        let path = format!("/api/v1/doubts/{}/{}/confirm", segment(run)?, segment(step)?);
        self.call(Ask::change(path, asked, options)?).await
    }
}

/// Idempotency keys.
impl Client {
    /// Looks up a key. `credential` owns the request key; absent, it is the caller's.
    pub async fn get_key(
        &self,
        scope: KeyScope,
        key: &str,
        credential: Option<&str>,
    ) -> Result<KeyRecord, ClientError> {
        self.call(Ask::read(key_path(scope, key, "", credential)?)).await
    }

    /// Releases a key early, so that it can be used again.
    pub async fn release_key(
        &self,
        scope: KeyScope,
        key: &str,
        credential: Option<&str>,
        asked: &ReleaseKey,
        options: RequestOptions,
    ) -> Result<KeyRecord, ClientError> {
        self.call(Ask::change(key_path(scope, key, "/release", credential)?, asked, options)?).await
    }
}

/// Workspaces and credentials.
impl Client {
    /// Makes a workspace.
    pub async fn create_workspace(
        &self,
        asked: &CreateWorkspace,
        options: RequestOptions,
    ) -> Result<CreatedOrExisting<Workspace>, ClientError> {
        self.make(Ask::change("/api/v1/workspaces".into(), asked, options)?).await
    }

    /// Workspaces of the installation.
    pub async fn list_workspaces(&self, paging: &Paging) -> Result<Page<Workspace>, ClientError> {
        self.page("/api/v1/workspaces".into(), paging, &[]).await
    }

    /// One workspace.
    pub async fn get_workspace(&self, id: &str) -> Result<Workspace, ClientError> {
        self.call(Ask::read(format!("/api/v1/workspaces/{}", segment(id)?))).await
    }

    /// Creates a credential, in the caller's workspace if none is named. The response shows its key
    /// once, so the request is not retried.
    pub async fn create_credential(
        &self,
        workspace: Option<&str>,
        asked: &CreateCredential,
    ) -> Result<IssuedCredential, ClientError> {
        let query: Vec<_> =
            workspace.map(|workspace| ("workspace", workspace.to_owned())).into_iter().collect();
        self.call(Ask::change_once(with_query("/api/v1/credentials".into(), &query), asked)?).await
    }

    /// Credentials, without their secrets.
    pub async fn list_credentials(&self, paging: &Paging) -> Result<Page<Credential>, ClientError> {
        self.page("/api/v1/credentials".into(), paging, &[]).await
    }

    /// One credential, without its secret.
    pub async fn get_credential(&self, id: &str) -> Result<Credential, ClientError> {
        self.call(Ask::read(format!("/api/v1/credentials/{}", segment(id)?))).await
    }

    /// Gives a credential a new secret. The response shows it once, so the request is not retried.
    pub async fn rotate_credential(
        &self,
        id: &str,
        asked: &RotateCredential,
    ) -> Result<IssuedCredential, ClientError> {
        self.call(Ask::change_once(format!("/api/v1/credentials/{}/rotate", segment(id)?), asked)?).await
    }

    /// Revokes a credential.
    pub async fn revoke_credential(
        &self,
        id: &str,
        asked: &RevokeCredential,
        options: RequestOptions,
    ) -> Result<Credential, ClientError> {
        self.call(Ask::change(format!("/api/v1/credentials/{}/revoke", segment(id)?), asked, options)?).await
    }
}

/// The server itself.
impl Client {
    /// The contract on idempotency that is in force.
    pub async fn get_idempotency_policy(&self) -> Result<IdempotencyPolicy, ClientError> {
        self.call(Ask::read("/api/v1/idempotency-policy".into())).await
    }

    /// Is the process alive?
    pub async fn get_health(&self) -> Result<Health, ClientError> {
        self.call(Ask::read("/healthz".into())).await
    }

    /// Returns the readiness of the server. A `503` is an error that says which check failed.
    pub async fn get_readiness(&self) -> Result<Readiness, ClientError> {
        self.call(Ask::read("/readyz".into())).await
    }

    /// Metrics in the Prometheus text format.
    pub async fn get_metrics(&self) -> Result<String, ClientError> {
        self.send(Ask::read("/metrics".into()).header("accept", "text/plain".into())).await?.text()
    }
}

impl Client {
    pub(super) async fn make<T: DeserializeOwned>(
        &self,
        ask: Ask,
    ) -> Result<CreatedOrExisting<T>, ClientError> {
        let answer = self.send(ask).await?;
        Ok(CreatedOrExisting { value: answer.json()?, is_new: answer.status == StatusCode::CREATED })
    }

    pub(super) async fn page<T: DeserializeOwned + ToSchema>(
        &self,
        path: String,
        paging: &Paging,
        filters: &[(&'static str, String)],
    ) -> Result<Page<T>, ClientError> {
        let mut query = filters.to_vec();
        query.extend(paging.limit.map(|limit| ("limit", limit.to_string())));
        query.extend(paging.cursor.clone().map(|cursor| ("cursor", cursor)));
        self.call(Ask::read(with_query(path, &query))).await
    }
}

pub(super) fn run_path(id: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/workflow-runs/{}{rest}", segment(id)?))
}

fn key_path(scope: KeyScope, key: &str, rest: &str, credential: Option<&str>) -> Result<String, ClientError> {
    let query: Vec<_> = credential.map(|id| ("credentialId", id.to_owned())).into_iter().collect();
    Ok(with_query(format!("/api/v1/keys/{}/{}{rest}", spelled(&scope), segment(key)?), &query))
}

/// One percent-encoded segment of a path. `.` and `..` would name another folder, even encoded.
pub(super) fn segment(text: &str) -> Result<String, ClientError> {
    match text {
        "" | "." | ".." => Err(ClientError::Setup(format!("{text:?} is not a valid path segment"))),
        _ => Ok(utf8_percent_encode(text, KEPT).to_string()),
    }
}

/// The reason of a deletion, which has no body.
pub(super) fn with_reason(path: String, reason: Option<&str>) -> String {
    let query: Vec<_> = reason.map(|reason| ("reason", reason.to_owned())).into_iter().collect();
    with_query(path, &query)
}

pub(super) fn with_query(path: String, query: &[(&'static str, String)]) -> String {
    let mut target = path;
    for (place, (name, value)) in query.iter().enumerate() {
        let separator = if place == 0 { '?' } else { '&' };
        target.extend([separator.to_string(), (*name).to_owned(), "=".into()]);
        target.extend(utf8_percent_encode(value, KEPT));
    }
    target
}

/// A word as spelled on the wire.
pub(super) fn spelled<T: Serialize>(word: &T) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_choose_cannot_leave_its_place_in_the_path() {
        assert_eq!(segment("a/b?c#d%2e é").unwrap(), "a%2Fb%3Fc%23d%252e%20%C3%A9");
        for dots in ["", ".", ".."] {
            assert!(segment(dots).is_err(), "{dots:?}");
        }
        let path = key_path(KeyScope::Run, "../x", "/release", Some("a&b=c")).unwrap();
        assert_eq!(path, "/api/v1/keys/run/..%2Fx/release?credentialId=a%26b%3Dc");
    }

    #[test]
    fn words_are_spelled_as_on_the_wire() {
        assert_eq!(spelled(&RunStatus::Completed), "COMPLETED");
        assert_eq!(spelled(&KeyScope::Request), "request");
    }
}
