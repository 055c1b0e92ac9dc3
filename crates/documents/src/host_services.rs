//! Services that a host provides to documents: task handlers, an HTTP client and secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::ctx::Attempt;
use hapax_engine::model::WorkspaceId;
use hapax_engine::{Failure, Hold};
use serde_json::Value;

use crate::check::{DeclaredNames, JudgeAddress};
use crate::destination::Destination;
use crate::run::excerpt::AnswerExcerpt;

type Handling = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;
type Handler = Arc<dyn Fn(TaskCall) -> Handling + Send + Sync>;

/// Header with the fence of the lease or claim that a request is sent under.
pub const FENCE_HEADER: &str = "Hapax-Fence";

/// One call of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCall {
    /// The name of the task.
    pub name: String,
    /// The input.
    pub input: Value,
    /// The effect's key: the same across attempts, crashes and takeovers.
    pub key: String,
    /// Number of the attempt, counted from 1.
    pub attempt: u32,
    /// Fence of the lease: a later holder has a higher one.
    pub fence: u64,
    /// Right to begin the task. Check it right before anything leaves the process.
    pub hold: Hold,
    /// True if the effect must not happen twice, so nobody may go on while it may still begin.
    pub is_claimed: bool,
}

impl TaskCall {
    /// One call of the task in this attempt of its step.
    pub fn of(name: &str, input: Value, attempt: &Attempt, is_claimed: bool) -> Self {
        TaskCall {
            name: name.to_owned(),
            input,
            key: attempt.idempotency_key().to_owned(),
            attempt: attempt.number(),
            fence: attempt.fence(),
            hold: attempt.hold().clone(),
            is_claimed,
        }
    }
}

/// A request to send. Its `Debug` output is redacted, because it may contain secrets.
#[derive(Clone, PartialEq)]
pub struct HttpCall {
    /// The method, in upper case.
    pub method: String,
    /// The URL, http or https. The caller decides whether the destination is allowed.
    pub url: String,
    /// Headers, including the effect key and secrets.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// Timeout of the whole request.
    pub timeout: Duration,
    /// Maximum size of the answer to read, after decompression.
    pub max_response_bytes: usize,
    /// Right to send the request. The caller checks it right before the first byte leaves.
    pub hold: Hold,
    /// Describes the request and its answer in failures.
    pub(crate) excerpt: AnswerExcerpt,
}

impl HttpCall {
    /// Sends the request only while `hold` is valid, with the holder's fence, so that the receiver can reject an
    /// earlier holder.
    #[must_use]
    pub fn held_by(mut self, hold: Hold, fence: u64) -> Self {
        self.hold = hold;
        self.headers.push((FENCE_HEADER.to_owned(), fence.to_string()));
        self
    }
}

impl fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let bytes = self.body.as_ref().map(Vec::len);
        f.debug_struct("HttpCall")
            .field("method", &self.method)
            .field("headers", &names)
            .field("body_bytes", &bytes)
            .finish_non_exhaustive()
    }
}

/// A response with any status.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

/// Reason why there is no answer, by its meaning for the effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpFault {
    /// The request is forbidden, for example because the address is not allowed.
    Refused {
        /// The reason.
        why: String,
    },
    /// It was not sent, because no connection could be made. A retry is safe.
    NotSent {
        /// The reason.
        why: String,
    },
    /// The sender lost the right to send it before the first byte left. Nothing was sent.
    NoLongerHeld,
    /// All or part of the request was sent, and its outcome is unknown.
    Unknown {
        /// The reason.
        why: String,
    },
    /// The answer was larger than the limit.
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Sends requests.
#[async_trait]
pub trait HttpCaller: Send + Sync {
    /// Sends a request of this workspace once: the engine does the retries. Redirects are returned as answers.
    async fn call(&self, workspace: &WorkspaceId, call: HttpCall) -> Result<HttpAnswer, HttpFault>;

    /// Checks, when a document is uploaded, whether this workspace may send to an address, as far as that is known by
    /// then.
    fn check_address(&self, workspace: &WorkspaceId, url: &str) -> Result<(), String> {
        let _ = (workspace, url);
        Ok(())
    }
}

/// Tasks and entity actions whose code is in other processes.
#[async_trait]
pub trait TasksElsewhere: Send + Sync {
    /// Names of tasks that documents of the workspace may call.
    fn tasks(&self, workspace: &WorkspaceId) -> BTreeSet<String>;

    /// Returns whether entity workflows of the workspace may name this action.
    fn has_action(&self, workspace: &WorkspaceId, name: &str) -> bool;

    /// Runs a task of the workspace.
    async fn call(&self, workspace: &WorkspaceId, call: TaskCall) -> Result<Value, Failure>;
}

/// Failure code for a secret that does not exist.
pub const UNKNOWN_SECRET: &str = "unknown_secret";

/// Source of secrets, by workspace and name.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Reads the secret of this name in this workspace, and never a secret of another workspace: authors of documents
    /// choose where secrets are sent. An error fails the step that needs the secret.
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Secret, Failure>;
}

/// The value of a secret, and its permitted destinations. Its `Debug` output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: String,
    destinations: Option<Vec<Destination>>,
}

impl Secret {
    /// Creates a secret that may be sent only to these destinations.
    #[must_use]
    pub fn bound_to(mut self, destinations: Vec<Destination>) -> Self {
        self.destinations = Some(destinations);
        self
    }

    /// Returns true if the operator bound the secret to destinations.
    pub fn is_bound(&self) -> bool {
        self.destinations.is_some()
    }

    /// The value, for use inside this process.
    pub fn into_value(self) -> String {
        self.value
    }

    /// The value for a request to `url`, if the secret `name` may be sent there.
    pub(crate) fn for_url(self, name: &str, url: &str) -> Result<String, Failure> {
        let may_go = self.destinations.as_ref().is_none_or(|all| all.iter().any(|one| one.covers(url)));
        if may_go {
            return Ok(self.value);
        }
        let text = format!(
            "the secret {name:?} may not be sent to {}; the operator binds it to destinations",
            crate::template::host_of(url)
        );
        Err(Failure::permanent(text).with_code("secret_not_for_destination"))
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Secret { value, destinations: None }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("destinations", &self.destinations).finish_non_exhaustive()
    }
}

/// All services that a document may use.
#[derive(Clone, Default)]
pub struct HostServices {
    tasks: BTreeMap<String, Handler>,
    other_tasks: Option<Handler>,
    elsewhere: Option<Arc<dyn TasksElsewhere>>,
    http: Option<Arc<dyn HttpCaller>>,
    secrets: Option<Arc<dyn Secrets>>,
}

impl HostServices {
    /// Creates host services without any service.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler for the task of this name.
    #[must_use]
    pub fn task<F, Fut>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(TaskCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.tasks.insert(name.to_string(), Arc::new(move |call| Box::pin(handler(call))));
        self
    }

    /// Sets the handler for all tasks that have none.
    #[must_use]
    pub fn other_tasks<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(TaskCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
    {
        self.other_tasks = Some(Arc::new(move |call| Box::pin(handler(call))));
        self
    }

    /// Sets who runs tasks without a handler here.
    #[must_use]
    pub fn tasks_elsewhere(mut self, elsewhere: Arc<dyn TasksElsewhere>) -> Self {
        self.elsewhere = Some(elsewhere);
        self
    }

    /// Sets the HTTP client.
    #[must_use]
    pub fn http(mut self, caller: Arc<dyn HttpCaller>) -> Self {
        self.http = Some(caller);
        self
    }

    /// Sets the source of secrets.
    #[must_use]
    pub fn secrets(mut self, secrets: Arc<dyn Secrets>) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// Names of the tasks that have a handler; `None` if there is a handler for all others.
    pub fn known_tasks(&self) -> Option<BTreeSet<String>> {
        self.other_tasks.is_none().then(|| self.tasks.keys().cloned().collect())
    }

    pub(crate) async fn call_task(&self, workspace: &WorkspaceId, call: TaskCall) -> Result<Value, Failure> {
        match self.tasks.get(&call.name).or(self.other_tasks.as_ref()) {
            Some(handler) => {
                call.hold.ensure_still_held()?;
                handler(call).await
            }
            None => match &self.elsewhere {
                Some(elsewhere) => elsewhere.call(workspace, call).await,
                // Another process may have a handler, or this one after its next deployment.
                None => {
                    let text = format!("no handler for the task {:?} is registered here", call.name);
                    Err(Failure::retryable(text).with_code("unknown_task"))
                }
            },
        }
    }

    /// The services for one workspace.
    pub fn of<'a>(&'a self, workspace: &'a WorkspaceId) -> WorkspaceServices<'a> {
        WorkspaceServices { services: self, workspace }
    }
}

/// Host services of one workspace.
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceServices<'a> {
    services: &'a HostServices,
    workspace: &'a WorkspaceId,
}

impl WorkspaceServices<'_> {
    pub(crate) fn workspace(&self) -> &WorkspaceId {
        self.workspace
    }

    /// Names and addresses that documents of this workspace may use.
    pub fn known(&self) -> DeclaredNames {
        let (caller, workspace) = (self.services.http.clone(), self.workspace.clone());
        let addresses =
            caller.map(|caller| JudgeAddress::new(move |url: &str| caller.check_address(&workspace, url)));
        let elsewhere = self.services.elsewhere.iter().flat_map(|elsewhere| elsewhere.tasks(self.workspace));
        let tasks = self.services.known_tasks().map(|known| known.into_iter().chain(elsewhere).collect());
        DeclaredNames { tasks, addresses, ..DeclaredNames::default() }
    }

    /// Returns whether another process has offered this action.
    pub fn has_action_elsewhere(&self, name: &str) -> bool {
        self.services.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.has_action(self.workspace, name))
    }

    /// Sends a request with the HTTP client.
    pub async fn send(&self, call: HttpCall) -> Result<HttpAnswer, HttpFault> {
        match &self.services.http {
            Some(caller) => caller.call(self.workspace, call).await,
            None => Err(HttpFault::Refused { why: "nobody here sends requests".into() }),
        }
    }

    /// Reads a secret of the workspace.
    pub async fn get_secret(&self, name: &str) -> Result<Secret, Failure> {
        match &self.services.secrets {
            Some(secrets) => secrets.get_secret(self.workspace, name).await,
            None => Err(Failure::permanent(format!("there is no secret {name:?}")).with_code(UNKNOWN_SECRET)),
        }
    }
}

impl fmt::Debug for HostServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostServices").field("tasks", &self.tasks.keys()).finish_non_exhaustive()
    }
}
