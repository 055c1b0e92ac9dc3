//! The worker behind a connection: what is registered, and the sessions that offer it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use hapax_api::client::{Client, ClientError};
use hapax_api::{OpenWorkerSession, WorkerWorkflow};
use hapax_engine::Error;
use hapax_engine::clock::Clock;
use hapax_engine::model::{Failure, Name, WorkflowRef};
use hapax_engine::remote::RemoteWorkflow;
use hapax_engine::runtime::{ActionAnswer, StepCall};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::calls::{ActionCode, TaskCall, TaskCode, action_code, task_code};
use crate::errors::{RecoveryAction, error_of, remedy_of};
use crate::limits::{AFTER_REFUSAL, ANNOUNCE_WITHIN, MAX_LATE_OUTCOMES, REGISTRATION_PAUSE};
use crate::options::RemoteOptions;
use crate::outbox::Late;
use crate::requests::send_until_answered;
use crate::session::{Session, SessionEnd};

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    /// Begins nothing more.
    Draining,
    Closed,
}

/// Code that is registered.
#[derive(Default)]
struct Code {
    workflows: HashMap<WorkflowRef, RemoteWorkflow>,
    tasks: HashMap<String, TaskCode>,
    actions: HashMap<String, ActionCode>,
}

/// Names for one session.
#[derive(Debug, Clone, Default)]
struct Offer {
    workflows: Vec<WorkerWorkflow>,
    tasks: Vec<String>,
    actions: Vec<String>,
}

impl Offer {
    fn len(&self) -> usize {
        self.workflows.len() + self.tasks.len() + self.actions.len()
    }
}

/// How many names the server knows.
#[derive(Debug, Clone, Default)]
struct Announced {
    names: usize,
    /// Why no more will be known.
    refused: Option<String>,
}

/// The worker of a connection, shared by its sessions.
pub(crate) struct Worker {
    pub(crate) client: Client,
    options: RemoteOptions,
    code: RwLock<Code>,
    /// Names that no session offers yet.
    pending: Mutex<Offer>,
    registered: Notify,
    announced: watch::Sender<Announced>,
    running: AtomicU32,
    late: Mutex<Vec<Late>>,
    phase: watch::Sender<Phase>,
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Notified when an attempt ended, or something was handed in.
    pub(crate) changed: Notify,
    /// Notified when the right to effects was renewed after it had passed.
    pub(crate) hold_renewed: Notify,
}

/// A connection to a server. Clones are cheap. Dropping the last one stops its worker like a crash: no data is lost, and
/// others go on with its runs.
#[derive(Clone)]
pub struct Remote {
    pub(crate) worker: Arc<Worker>,
    _alive: Arc<Alive>,
}

struct Alive(Arc<Worker>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Remote {
    /// Creates a connection. Nothing is sent yet.
    pub fn new(url: &str, options: RemoteOptions) -> Result<Self, ClientError> {
        let mut client = Client::new(url, &options.api_key)?;
        if let Some(patience) = options.patience {
            client = client.patience(patience);
        }
        let worker = Arc::new(Worker {
            client,
            options,
            code: RwLock::default(),
            pending: Mutex::default(),
            registered: Notify::new(),
            announced: watch::Sender::default(),
            running: AtomicU32::new(0),
            late: Mutex::default(),
            phase: watch::Sender::new(Phase::Working),
            sessions: Mutex::default(),
            changed: Notify::new(),
            hold_renewed: Notify::new(),
        });
        tokio::spawn(offer(worker.clone()));
        Ok(Remote { _alive: Arc::new(Alive(worker.clone())), worker })
    }

    /// The client of the server's API.
    pub fn client(&self) -> &Client {
        &self.worker.client
    }

    /// Registers a workflow: its runs are carried out here from now on.
    pub fn register(&self, workflow: RemoteWorkflow) -> Result<(), Error> {
        let reference = workflow.reference().clone();
        let mut code = self.worker.code.write().unwrap_or_else(PoisonError::into_inner);
        if code.workflows.contains_key(&reference) {
            return Err(Error::AlreadyRegistered(reference.to_string()));
        }
        code.workflows.insert(reference.clone(), workflow);
        drop(code);
        let name = reference.name.to_string();
        self.worker.pending().workflows.push(WorkerWorkflow { name, version: reference.version });
        self.worker.registered.notify_one();
        Ok(())
    }

    /// Registers the code of an action of entity workflows.
    pub fn register_action<F, Fut>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(StepCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ActionAnswer, Failure>> + Send + 'static,
    {
        let name = Name::new("action", name)?.to_string();
        let mut registered = self.worker.code.write().unwrap_or_else(PoisonError::into_inner);
        if registered.actions.contains_key(&name) {
            return Err(Error::AlreadyRegistered(format!("action {name}")));
        }
        registered.actions.insert(name.clone(), action_code(code));
        drop(registered);
        self.worker.pending().actions.push(name);
        self.worker.registered.notify_one();
        Ok(())
    }

    /// Registers the code of a task, which steps of documents call.
    pub fn register_task<F, Fut, T, E>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(TaskCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        let name = Name::new("task", name)?.to_string();
        let mut registered = self.worker.code.write().unwrap_or_else(PoisonError::into_inner);
        if registered.tasks.contains_key(&name) {
            return Err(Error::AlreadyRegistered(format!("task {name}")));
        }
        registered.tasks.insert(name.clone(), task_code(code));
        drop(registered);
        self.worker.pending().tasks.push(name);
        self.worker.registered.notify_one();
        Ok(())
    }

    /// Waits until the server knows everything that is registered.
    pub async fn ready(&self) -> Result<(), Error> {
        let names = self.worker.count_names();
        let mut announced = self.worker.announced.subscribe();
        let is_known =
            announced.wait_for(|announced| announced.names >= names || announced.refused.is_some());
        let patience = self.worker.options.patience.unwrap_or(ANNOUNCE_WITHIN);
        match tokio::time::timeout(patience, is_known).await {
            Ok(Ok(announced)) => match &announced.refused {
                Some(why) if announced.names < names => Err(Error::Server {
                    code: "worker_refused".into(),
                    detail: format!("the server takes no worker with this key: {why}"),
                }),
                _ => Ok(()),
            },
            Ok(Err(_)) => Err(Error::ShuttingDown),
            Err(_) => Err(Error::NoAnswer("no session could be opened with the server in time".into())),
        }
    }

    /// Stops gracefully: takes no new work, lets attempts under way finish for up to `grace`, hands in what they did, and
    /// gives all runs back.
    pub async fn shutdown(&self, grace: Duration) {
        let worker = &self.worker;
        worker.phase.send_if_modified(|phase| {
            let is_first = *phase == Phase::Working;
            if is_first {
                *phase = Phase::Draining;
            }
            is_first
        });
        let _ = tokio::time::timeout(grace, worker.until_idle()).await;
        let sessions = std::mem::take(&mut *worker.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        worker.close();
        for session in sessions {
            session.sever();
            session.close().await;
        }
    }

    /// Stops at once, like a crash. For tests.
    pub fn kill(&self) {
        self.worker.close();
        let sessions =
            std::mem::take(&mut *self.worker.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        sessions.iter().for_each(|session| session.sever());
    }

    pub(crate) fn error(error: ClientError) -> Error {
        error_of(error)
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("server", &self.worker.client.server()).finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.options.clock.clone()
    }

    pub(crate) fn max_resident(&self) -> usize {
        self.options.max_resident
    }

    fn pending(&self) -> MutexGuard<'_, Offer> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_names(&self) -> usize {
        let code = self.code.read().unwrap_or_else(PoisonError::into_inner);
        code.workflows.len() + code.tasks.len() + code.actions.len()
    }

    pub(crate) fn find_workflow(&self, reference: &WorkflowRef) -> Option<RemoteWorkflow> {
        self.code.read().unwrap_or_else(PoisonError::into_inner).workflows.get(reference).cloned()
    }

    pub(crate) fn find_task(&self, name: &str) -> Option<TaskCode> {
        self.code.read().unwrap_or_else(PoisonError::into_inner).tasks.get(name).cloned()
    }

    pub(crate) fn find_action(&self, name: &str) -> Option<ActionCode> {
        self.code.read().unwrap_or_else(PoisonError::into_inner).actions.get(name).cloned()
    }

    /// Attempts, tasks and actions that can begin now.
    pub(crate) fn free(&self) -> u32 {
        match *self.phase.borrow() {
            Phase::Working => self.options.concurrency.saturating_sub(self.running.load(Ordering::Acquire)),
            Phase::Draining | Phase::Closed => 0,
        }
    }

    /// Counts attempts under way of one run: `before`, and now.
    pub(crate) fn count_running(&self, before: usize, now: usize) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match now >= before {
            true => self.running.fetch_add(count(now - before), Ordering::AcqRel),
            false => {
                let running = self.running.fetch_sub(count(before - now), Ordering::AcqRel);
                self.changed.notify_waiters();
                running
            }
        };
    }

    pub(crate) fn keep_late(&self, late: Vec<Late>) {
        if late.is_empty() {
            return;
        }
        tracing::warn!(outcomes = late.len(), "outcomes come late; they are handed in as evidence");
        let mut kept = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_LATE_OUTCOMES.saturating_sub(kept.len());
        kept.extend(late.into_iter().take(room));
    }

    pub(crate) fn take_late(&self) -> Vec<Late> {
        std::mem::take(&mut self.late.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn close(&self) {
        self.phase.send_replace(Phase::Closed);
    }

    /// Waits until nothing is under way and everything is handed in.
    async fn until_idle(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // In this order: what ends hands in its outcome before it no longer counts.
            let is_idle = self.running.load(Ordering::Acquire) == 0;
            let is_handed_in = {
                let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
                sessions.iter().all(|session| session.is_handed_in())
            };
            if is_idle && is_handed_in {
                return;
            }
            changed.await;
        }
    }

    async fn until_closed(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as this worker.
        let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
    }
}

/// Offers what is registered to the server, one session for what is registered together.
async fn offer(worker: Arc<Worker>) {
    let offering = async {
        let mut batches = 0_u32;
        loop {
            if worker.pending().len() == 0 {
                worker.registered.notified().await;
                continue;
            }
            tokio::time::sleep(REGISTRATION_PAUSE).await;
            let offer = std::mem::take(&mut *worker.pending());
            let worker = worker.clone();
            batches += 1;
            let instance = worker.options.instance.as_deref().map(|name| instance_of(name, batches));
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = worker.until_closed() => {}
                    () = keep_session(&worker, instance, offer) => {}
                }
            });
        }
    };
    tokio::select! {
        biased;
        () = worker.until_closed() => {}
        () = offering => {}
    }
}

/// The instance of one session. A session replaces others of its instance, so each session of a program has its own.
fn instance_of(name: &str, batch: u32) -> String {
    if batch == 1 { name.into() } else { format!("{name}/{batch}") }
}

/// Opens sessions for the same names, one after the other, until the server takes none any more.
async fn keep_session(worker: &Arc<Worker>, instance: Option<String>, offer: Offer) {
    let options = &worker.options;
    let asked = OpenWorkerSession {
        name: options.name.clone(),
        instance,
        sdk: Some("rust".into()),
        sdk_version: Some(env!("CARGO_PKG_VERSION").into()),
        host: None,
        concurrency: options.concurrency,
        workflows: offer.workflows.clone(),
        tasks: offer.tasks.clone(),
        actions: offer.actions.clone(),
    };
    let mut is_announced = false;
    loop {
        if *worker.phase.borrow() != Phase::Working {
            return;
        }
        let opened = send_until_answered(Duration::ZERO, || worker.client.open_worker_session(&asked)).await;
        let session = match opened {
            Ok(opened) => Session::new(worker.clone(), opened),
            Err(error) if remedy_of(&error) == RecoveryAction::GiveUp || !is_announced => {
                refuse(worker, &error);
                return;
            }
            Err(error) => {
                tracing::error!(%error, "no session could be opened; it is tried again");
                tokio::time::sleep(AFTER_REFUSAL).await;
                continue;
            }
        };
        worker.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session.clone());
        if !std::mem::replace(&mut is_announced, true) {
            worker.announced.send_modify(|announced| announced.names += offer.len());
        }
        let end = session.work().await;
        let mut sessions = worker.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|known| !Arc::ptr_eq(known, &session));
        drop(sessions);
        if let SessionEnd::Final(error) = end {
            refuse(worker, &error);
            return;
        }
    }
}

fn refuse(worker: &Worker, error: &ClientError) {
    tracing::error!(%error, "this program carries out no more runs");
    worker.announced.send_modify(|announced| announced.refused = Some(error.to_string()));
}
