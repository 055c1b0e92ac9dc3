//! Push workers: functions that cannot poll. They are kept in the catalog, and every node sends them work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use hapax_api as api;
use hapax_api::{Code, DurationText, Problem};
use hapax_engine::model::{
    Actor, CatalogItem, CatalogKind, JournalEntry, JournalEvent, Name, Payload, Timestamp, Version,
    WorkspaceId,
};
use hapax_engine::runtime::BackgroundLoops;
use hapax_engine::store::{Catalog, PutCatalogItem, PutOutcome, Store};
use hapax_outgoing::{Fault, Refusal, Request, SendCheck};
use hapax_webhooks::{MessageId, SigningSecret, sign_any};
use hapax_workers::{KnownName, PushFunction, PushTarget, Pushed, WorkerCaller, Workers, keep_pushing};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::egress_policy::EgressPolicy;
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::limits::{
    DEFAULT_PUSH_CONCURRENCY, MAX_PUSH_CONCURRENCY, MAX_PUSH_TIMEOUT, MAX_PUSH_WORKERS_PER_WORKSPACE,
    MAX_WEBHOOK_URL_CHARS, MIN_PUSH_TIMEOUT, PUSH_TIMEOUT,
};
use crate::sealing::{Sealed, Sealer};
use crate::worker_names::WorkerNames;

/// Beginning of the ids of these items. Other settings have other ids.
const ID_PREFIX: &str = "psh_";

/// Stored form of a push worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredPushWorker {
    name: String,
    url: String,
    workflows: Vec<api::WorkerWorkflow>,
    tasks: Vec<String>,
    actions: Vec<String>,
    timeout: DurationText,
    concurrency: u32,
    secret: Sealed,
    is_deleted: bool,
}

impl StoredPushWorker {
    /// Names and limits that its sessions announce.
    fn facts(&self) -> api::OpenWorkerSession {
        api::OpenWorkerSession {
            name: self.name.clone(),
            instance: None,
            sdk: Some("push".into()),
            sdk_version: None,
            host: None,
            concurrency: self.concurrency,
            workflows: self.workflows.clone(),
            tasks: self.tasks.clone(),
            actions: self.actions.clone(),
        }
    }
}

/// A push worker that this node knows.
struct ActivePushWorker {
    workspace: WorkspaceId,
    version: Version,
    created_at: Timestamp,
    kept: StoredPushWorker,
    /// Sends it work; absent for a deleted one.
    _sending: Option<Sending>,
}

/// A loop that ends when this is dropped.
struct Sending {
    _stop: watch::Sender<()>,
}

impl ActivePushWorker {
    fn shown(&self, id: &Name) -> api::PushWorker {
        let kept = self.kept.clone();
        api::PushWorker {
            id: id.to_string(),
            name: kept.name,
            url: kept.url,
            workflows: kept.workflows,
            tasks: kept.tasks,
            actions: kept.actions,
            timeout: kept.timeout,
            concurrency: kept.concurrency,
            created_at: self.created_at.to_string(),
        }
    }
}

/// All push workers.
pub(crate) struct PushWorkers {
    loops: BackgroundLoops,
    workers: Arc<Workers>,
    names: Arc<WorkerNames>,
    store: Arc<dyn Store>,
    outgoing: EgressPolicy,
    sealer: Arc<Sealer>,
    known: Mutex<BTreeMap<Name, ActivePushWorker>>,
    last_read: LastFullRead,
}

/// A push worker as it is stored, and as it is shown.
struct Found {
    kept: StoredPushWorker,
    shown: api::PushWorker,
}

fn absent() -> Problem {
    let detail = "There is no such push worker in this workspace; list them with GET /api/v1/push-workers.";
    Problem::new(Code::NotFound, detail)
}

impl PushWorkers {
    pub(crate) fn new(
        loops: BackgroundLoops,
        workers: Arc<Workers>,
        names: Arc<WorkerNames>,
        store: Arc<dyn Store>,
        outgoing: EgressPolicy,
        sealer: Arc<Sealer>,
    ) -> Arc<Self> {
        let (known, last_read) = (Mutex::default(), LastFullRead::default());
        Arc::new(PushWorkers { loops, workers, names, store, outgoing, sealer, known, last_read })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Name, ActivePushWorker>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    /// Registers a function and creates its secret, which is shown once.
    pub(crate) async fn create(
        &self,
        workspace: &WorkspaceId,
        asked: api::CreatePushWorker,
        by: Actor,
    ) -> Result<api::IssuedPushWorker, Problem> {
        let (id, secret) = (fresh_id()?, SigningSecret::generate().map_err(no_random)?);
        let shown = secret.reveal();
        let kept = self.checked(workspace, &id, asked, &shown)?;
        let facts = kept.facts();
        for name in Workers::names_of(WorkerCaller::unbound(workspace), &facts)? {
            if let KnownName::Workflow(workflow) = name {
                self.workers.learn(workspace, &workflow)?;
            }
        }
        self.names.keep(WorkerCaller::unbound(workspace), &facts).await?;
        let request = PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::Setting,
            id: id.clone(),
            name: format!("push worker {}", kept.name),
            body: Payload::of(&kept).map_err(|invalid| problem_of_invalid(&invalid))?,
            expected: None,
            note: Some(self.note(workspace, by, &id, "registered")),
        };
        let item = match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => item,
            PutOutcome::NameTaken(other) => {
                let detail = format!("The push worker {} has this name; choose another.", other.id);
                return Err(Problem::new(Code::NameTaken, detail).with("pushWorkerId", other.id.to_string()));
            }
            PutOutcome::Exists(_) | PutOutcome::Stale(_) | PutOutcome::Missing => {
                let detail = "The push worker could not be registered. Send the request again.";
                return Err(Problem::new(Code::Internal, detail));
            }
        };
        self.learn(&item)?;
        let known = self.known();
        let push_worker = known[&id].shown(&id);
        Ok(api::IssuedPushWorker { push_worker, secret: shown.expose_secret().to_owned() })
    }

    fn checked(
        &self,
        workspace: &WorkspaceId,
        id: &Name,
        asked: api::CreatePushWorker,
        secret: &SecretString,
    ) -> Result<StoredPushWorker, Problem> {
        let refuse = |path: &str, why: String| Problem::new(Code::InvalidRequest, why).with("path", path);
        if asked.workflows.is_empty() && asked.tasks.is_empty() && asked.actions.is_empty() {
            return Err(refuse("/workflows", "Name at least one workflow, task or action.".into()));
        }
        let timeout = asked.timeout.map_or(PUSH_TIMEOUT, |timeout| timeout.0);
        if !(MIN_PUSH_TIMEOUT..=MAX_PUSH_TIMEOUT).contains(&timeout) {
            let (least, most) = (DurationText(MIN_PUSH_TIMEOUT), DurationText(MAX_PUSH_TIMEOUT));
            return Err(refuse("/timeout", format!("A request may take {least} to {most}.")));
        }
        let concurrency = asked.concurrency.unwrap_or(DEFAULT_PUSH_CONCURRENCY);
        if !(1..=MAX_PUSH_CONCURRENCY).contains(&concurrency) {
            return Err(refuse("/concurrency", format!("It is a number from 1 to {MAX_PUSH_CONCURRENCY}.")));
        }
        if asked.url.chars().count() > MAX_WEBHOOK_URL_CHARS {
            return Err(refuse(
                "/url",
                format!("An address has at most {MAX_WEBHOOK_URL_CHARS} characters."),
            ));
        }
        match self.outgoing.of(workspace).check(&Request::post(asked.url.clone(), "")) {
            Ok(()) => {}
            Err(why @ (Refusal::BadUrl { .. } | Refusal::Scheme { .. } | Refusal::Credentials)) => {
                return Err(refuse("/url", format!("The address cannot be used: {why}.")));
            }
            Err(why) => {
                let detail = format!("Work cannot be sent there: {why}.");
                return Err(Problem::new(Code::AddressNotAllowed, detail).with("path", "/url"));
            }
        }
        let here = self.known();
        let here =
            here.values().filter(|known| known.workspace == *workspace && !known.kept.is_deleted).count();
        if here >= MAX_PUSH_WORKERS_PER_WORKSPACE {
            let detail = format!(
                "This workspace holds at most {MAX_PUSH_WORKERS_PER_WORKSPACE} push workers. Delete one that is no longer needed."
            );
            return Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "push_workers"));
        }
        let secret = self.sealer.seal(&place_of(workspace, id), secret.expose_secret().as_bytes());
        Ok(StoredPushWorker {
            name: asked.name,
            url: asked.url,
            workflows: asked.workflows,
            tasks: asked.tasks,
            actions: asked.actions,
            timeout: DurationText(timeout),
            concurrency,
            secret: secret.map_err(no_random)?,
            is_deleted: false,
        })
    }

    /// Push workers of a workspace, in the order of their ids.
    pub(crate) fn list(&self, workspace: &WorkspaceId) -> Vec<api::PushWorker> {
        let known = self.known();
        let here = known.iter().filter(|(_, known)| known.workspace == *workspace && !known.kept.is_deleted);
        here.map(|(id, known)| known.shown(id)).collect()
    }

    /// One push worker.
    pub(crate) async fn get(&self, workspace: &WorkspaceId, id: &str) -> Result<api::PushWorker, Problem> {
        Ok(self.find(workspace, id).await?.1.shown)
    }

    /// Reads a push worker from the store.
    async fn find(&self, workspace: &WorkspaceId, id: &str) -> Result<(CatalogItem, Found), Problem> {
        let id = Name::new("push worker id", id).map_err(|_| absent())?;
        let item = self
            .catalog()
            .find_item(CatalogKind::Setting, &id)
            .await
            .map_err(|error| problem_of_store(&error))?;
        let item = item.filter(|item| item.workspace == *workspace && id.as_str().starts_with(ID_PREFIX));
        let item = item.ok_or_else(absent)?;
        self.learn(&item)?;
        let known = self.known();
        let found = known.get(&id).filter(|known| !known.kept.is_deleted).ok_or_else(absent)?;
        let found = Found { kept: found.kept.clone(), shown: found.shown(&id) };
        Ok((item, found))
    }

    /// Deletes a push worker: it gets no more work. Repeating the request is `not_found`.
    pub(crate) async fn delete(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        by: Actor,
    ) -> Result<api::PushWorker, Problem> {
        let (item, Found { mut kept, shown }) = self.find(workspace, id).await?;
        let id = item.id.clone();
        kept.is_deleted = true;
        let request = PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::Setting,
            id: id.clone(),
            // Its name is free for another.
            name: format!("push worker {id}"),
            body: Payload::of(&kept).map_err(|invalid| problem_of_invalid(&invalid))?,
            expected: Some(item.version),
            note: Some(self.note(workspace, by, &id, "deleted")),
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => self.learn(&item).map(|()| shown),
            // Only a deletion changes one.
            PutOutcome::Stale(_) | PutOutcome::Missing | PutOutcome::Exists(_) | PutOutcome::NameTaken(_) => {
                Err(absent())
            }
        }
    }

    fn note(&self, workspace: &WorkspaceId, by: Actor, id: &Name, change: &str) -> JournalEntry {
        let what =
            JournalEvent::SetUp { kind: "push_worker".into(), id: id.to_string(), change: change.into() };
        JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what)
    }

    /// Caches an item. A new one gets work from now on, a deleted one no more.
    fn learn(&self, item: &CatalogItem) -> Result<(), Problem> {
        let kept: StoredPushWorker = item.body.to().map_err(|error| {
            tracing::error!(push_worker = %item.id, %error, "a stored push worker cannot be read");
            Problem::new(
                Code::StoreBroken,
                "A stored push worker cannot be read. Report `traceId` to the operator.",
            )
        })?;
        let mut known = self.known();
        if known.get(&item.id).is_some_and(|known| known.version >= item.version) {
            return Ok(());
        }
        let sending = (!kept.is_deleted).then(|| self.start(&item.workspace, &item.id, &kept)).transpose()?;
        let new = ActivePushWorker {
            workspace: item.workspace.clone(),
            version: item.version,
            created_at: item.created_at,
            kept,
            _sending: sending,
        };
        known.insert(item.id.clone(), new);
        Ok(())
    }

    fn start(&self, workspace: &WorkspaceId, id: &Name, kept: &StoredPushWorker) -> Result<Sending, Problem> {
        let broken = |why: String| {
            tracing::error!(push_worker = %id, why, "the secret of a push worker cannot be opened");
            Problem::new(Code::SecretUnavailable, "The secret of a push worker cannot be opened.")
        };
        let text = self
            .sealer
            .open(&place_of(workspace, id), &kept.secret)
            .map_err(|closed| broken(closed.to_string()))?;
        let text = std::str::from_utf8(&text).map_err(|error| broken(error.to_string()))?;
        let secret = SigningSecret::parse(text).map_err(|error| broken(error.to_string()))?;
        let function = Function {
            workspace: workspace.clone(),
            url: kept.url.clone(),
            timeout: kept.timeout.0,
            secrets: Arc::new(vec![secret]),
            outgoing: self.outgoing.clone(),
            store: self.store.clone(),
        };
        let target = Arc::new(PushTarget {
            workspace: workspace.clone(),
            facts: kept.facts(),
            function: Arc::new(function),
        });
        let workers = Arc::downgrade(&self.workers);
        let (stop, stopped) = watch::channel(());
        self.loops.spawn(format!("push worker {id}"), move |reporter| {
            let sending = keep_pushing(workers.clone(), target.clone(), move || reporter.pass());
            let mut stopped = stopped.clone();
            async move {
                tokio::select! {
                    () = sending => {}
                    _ = stopped.changed() => {}
                }
            }
        });
        Ok(Sending { _stop: stop })
    }
}

#[async_trait]
impl CatalogWatcher for PushWorkers {
    const KIND: CatalogKind = CatalogKind::Setting;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        match item.id.as_str().starts_with(ID_PREFIX) {
            true => self.learn(item),
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for PushWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushWorkers").field("known", &self.known().len()).finish_non_exhaustive()
    }
}

/// Reaches one function.
struct Function {
    workspace: WorkspaceId,
    url: String,
    timeout: Duration,
    secrets: Arc<Vec<SigningSecret>>,
    outgoing: EgressPolicy,
    store: Arc<dyn Store>,
}

impl PushFunction for Function {
    fn push(
        &self,
        id: String,
        body: String,
        may_send: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> BoxFuture<'static, Pushed> {
        let now = self.store.now();
        let message = MessageId::from_key(self.workspace.as_str(), &id);
        let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default());
        let signed = self.signed(&message, at, body.as_bytes());
        let mut request = Request::post(self.url.clone(), body);
        request.timeout = Some(self.timeout);
        request.send_check = Some(SendCheck::new(move || may_send()));
        let outgoing = self.outgoing.of(&self.workspace).clone();
        Box::pin(async move {
            match signed {
                Ok(headers) => request.headers = headers,
                Err(why) => return Pushed::NotBegun(why),
            }
            judge(outgoing.send(request).await)
        })
    }
}

impl Function {
    fn signed(&self, id: &MessageId, at: SystemTime, body: &[u8]) -> Result<http::HeaderMap, String> {
        let signed = sign_any(&self.secrets, id, at, body).map_err(|error| format!("not sent: {error}"))?;
        let mut headers = signed.to_headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

/// Answers that a function gives before any code of its user has run: it does not know the address, the signature, or
/// has no room.
const NOTHING_BEGUN: [u16; 8] = [401, 403, 404, 405, 410, 413, 425, 429];

fn judge(answer: Result<hapax_outgoing::Answer, Fault>) -> Pushed {
    match answer {
        Ok(answer) if answer.is_success() => match String::from_utf8(answer.body.to_vec()) {
            Ok(text) => Pushed::Answered(text),
            Err(_) => Pushed::Unknown("its response is not UTF-8".into()),
        },
        Ok(answer) if NOTHING_BEGUN.contains(&answer.status) => {
            Pushed::NotBegun(format!("it answered {}", answer.status))
        }
        Ok(answer) => Pushed::Unknown(format!("it answered {}", answer.status)),
        Err(fault @ (Fault::Refused { .. } | Fault::NotSent { .. } | Fault::NoLongerHeld)) => {
            Pushed::NotBegun(fault.to_string())
        }
        Err(fault @ Fault::Redirected { .. }) => Pushed::NotBegun(fault.to_string()),
        Err(fault @ (Fault::Unknown { .. } | Fault::TooLarge { .. })) => Pushed::Unknown(fault.to_string()),
    }
}

/// Place that its secret is sealed for.
fn place_of(workspace: &WorkspaceId, id: &Name) -> String {
    format!("push worker {workspace} {id}")
}

fn fresh_id() -> Result<Name, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Name::new("push worker id", &format!("{ID_PREFIX}{hex}")).expect("hex digits are a plain word"))
}

fn no_random(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "no secret could be created");
    Problem::new(Code::Internal, "No secret could be created. Report `traceId` to the operator.")
}
