//! All workers of one node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hapax_api as api;
use hapax_api::{Code, Problem, RawJson};
use hapax_engine::model::{Name, OwnerId, Timestamp, WorkflowRef, WorkspaceId};
use hapax_engine::runtime::{LoopReporter, WorkflowOptions};
use hapax_engine::{Ctx, Engine, Error, Failure};
use tokio::sync::Notify;

use crate::caller::WorkerCaller;
use crate::limits::{
    BATCH_WITHIN, COMMIT_WAIT, MAX_ANSWER_BYTES, MAX_COMMIT_BYTES, MAX_CONCURRENCY, MAX_ENDED_SESSIONS,
    MAX_ITEMS, MAX_LABEL_CHARS, MAX_LOG_PAGE, MAX_MAILBOX_BYTES, MAX_NAMES, MAX_OPEN_OPERATIONS, MAX_RESULTS,
    MAX_RUNS_PER_COMMIT, MAX_SESSIONS, MAX_SESSIONS_PER_WORKSPACE, MAX_WAITING_BATCHES, POLL_FOR,
    SESSION_CHECK_EVERY, WIND_DOWN_CHECK_EVERY, WORKER_WAIT,
};
use crate::mailbox_budget::MailboxBudgets;
use crate::node_tag::NodeTag;
use crate::remote_workflow::{first_page, run_remotely};
use crate::session::{NewSession, Session, SessionEnd};

/// A name that a worker offers, or offered before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KnownName {
    /// A workflow.
    Workflow(WorkflowRef),
    /// A task of documents.
    Task(String),
    /// An action of entity workflows.
    Action(String),
}

/// The workers of this node.
pub struct Workers {
    pub(crate) engine: Engine,
    node: NodeTag,
    lease_for: Duration,
    longest_hold: Duration,
    /// True once the node stops: it opens no sessions.
    is_stopping: AtomicBool,
    budgets: MailboxBudgets,
    /// Notified when a session was opened.
    opened: Notify,
    state: Mutex<WorkersState>,
    this: Weak<Workers>,
}

#[derive(Default)]
struct WorkersState {
    sessions: BTreeMap<String, Arc<Session>>,
    /// Sessions that are over, oldest first, with why.
    ended: VecDeque<(String, SessionEnd)>,
    /// Workflows whose sessions have no room for another run now.
    full: BTreeSet<(WorkspaceId, WorkflowRef)>,
    /// Workflows that were registered in the engine.
    registered: BTreeSet<(WorkspaceId, WorkflowRef)>,
}

impl Workers {
    /// The workers that carry out runs of `engine`, on the node `node`.
    pub fn new(engine: Engine, node: NodeTag) -> Arc<Self> {
        let lease_for = engine.lease_for();
        // Leases are renewed three times in their time, and end a tenth early for their holder.
        let longest_hold = lease_for / 2;
        let workers = Arc::new_cyclic(|this: &Weak<Workers>| Workers {
            engine,
            node,
            lease_for,
            longest_hold,
            is_stopping: AtomicBool::new(false),
            budgets: MailboxBudgets::default(),
            opened: Notify::new(),
            state: Mutex::default(),
            this: this.clone(),
        });
        let this = Arc::downgrade(&workers);
        let watch = move |reporter| keep_watching(this.clone(), reporter);
        workers.engine.background_loops().spawn("worker sessions", watch);
        workers
    }

    fn state(&self) -> MutexGuard<'_, WorkersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Longest time that a poll waits.
    pub fn poll_for(&self) -> Duration {
        POLL_FOR.min(self.longest_hold / 3)
    }

    /// Limits of one request.
    pub fn limits(&self) -> api::WorkerLimits {
        api::WorkerLimits {
            max_items: MAX_ITEMS,
            max_body_bytes: MAX_COMMIT_BYTES,
            max_runs_per_commit: MAX_RUNS_PER_COMMIT,
            max_log_page: MAX_LOG_PAGE,
            max_names: MAX_NAMES,
            max_results: MAX_RESULTS,
            max_open_operations: MAX_OPEN_OPERATIONS,
            max_waiting_batches: MAX_WAITING_BATCHES,
            max_answer_bytes: MAX_ANSWER_BYTES,
            max_mailbox_bytes: MAX_MAILBOX_BYTES,
            commit_wait: COMMIT_WAIT.into(),
            batch_within: BATCH_WITHIN.into(),
        }
    }

    /// Opens a session. It replaces an older one of the same instance.
    pub fn open(
        &self,
        caller: WorkerCaller<'_>,
        asked: api::OpenWorkerSession,
    ) -> Result<api::OpenedWorkerSession, Problem> {
        let workspace = caller.workspace;
        let workflows = check(&asked)?;
        caller.check(&asked)?;
        if self.is_stopping.load(Ordering::Acquire) {
            let detail = "Open the session on another node, or on this one after its restart.";
            return Err(Problem::new(Code::ShuttingDown, detail));
        }
        // Nobody is let in by an id alone, so it is drawn like all others.
        let id = self.node.session_id(OwnerId::fresh().as_u128());
        for workflow in &workflows {
            self.register(workspace, workflow)?;
        }
        let session = Session::new(NewSession {
            id: id.clone(),
            workspace: workspace.clone(),
            facts: asked,
            workflows,
            clock: self.engine.clock(),
            longest_hold: self.longest_hold,
            now: self.engine.store().now(),
            budget: self.budgets.of(workspace),
        });
        let replaced = {
            let mut state = self.state();
            let same = |other: &&Arc<Session>| {
                other.workspace == *workspace
                    && session.facts.instance.is_some()
                    && other.facts.instance == session.facts.instance
            };
            let replaced = state.sessions.values().find(same).cloned();
            if let Some(older) = &replaced {
                // A caller that may not offer its names may not end it either.
                caller.check(&older.facts)?;
            }
            let here = state.sessions.values().filter(|other| other.workspace == *workspace).count();
            let is_full = here >= MAX_SESSIONS_PER_WORKSPACE || state.sessions.len() >= MAX_SESSIONS;
            if is_full && replaced.is_none() {
                let detail =
                    format!("This node has {here} worker sessions of the workspace, and takes no more.");
                return Err(Problem::new(Code::QuotaExceeded, detail)
                    .with("quota", "worker_sessions")
                    .with("limit", MAX_SESSIONS_PER_WORKSPACE));
            }
            state.sessions.insert(id.clone(), session.clone());
            replaced
        };
        if let Some(older) = replaced {
            self.end(&older, SessionEnd::Replaced);
        }
        let engine = self.engine.workspace(workspace.clone());
        session.workflows.iter().for_each(|workflow| engine.set_served(workflow, true));
        self.opened.notify_waiters();
        tracing::info!(session = %id, %workspace, worker = session.name(), "worker session opened");
        Ok(api::OpenedWorkerSession {
            session_id: id,
            lease_for: self.lease_for.into(),
            poll_for: self.poll_for().into(),
            limits: self.limits(),
        })
    }

    /// Ends sessions of the instance that are older than the session `id`, which another node opened at `opened_at`.
    /// Returns false if this node has a newer one. Two nodes that tell each other agree on which session is the newest.
    pub fn replace_older(
        &self,
        caller: WorkerCaller<'_>,
        instance: &str,
        opened_at: Timestamp,
        id: &str,
    ) -> Result<bool, Problem> {
        let of_instance = self.find_sessions(caller.workspace, |session| {
            session.id != id && session.facts.instance.as_deref() == Some(instance)
        });
        of_instance.iter().try_for_each(|session| caller.check(&session.facts))?;
        let is_older = |session: &Arc<Session>| (session.opened_at, &*session.id) < (opened_at, id);
        let (older, newer): (Vec<_>, Vec<_>) = of_instance.into_iter().partition(is_older);
        older.iter().for_each(|session| self.end(session, SessionEnd::Replaced));
        Ok(newer.is_empty())
    }

    /// When a session of this node was opened.
    pub fn opened_at(&self, workspace: &WorkspaceId, id: &str) -> Option<Timestamp> {
        let found = self.find_sessions(workspace, |session| session.id == id);
        found.first().map(|session| session.opened_at)
    }

    /// Ends a session of this node because a newer one of its instance was opened on another node.
    pub fn give_way(&self, workspace: &WorkspaceId, id: &str) {
        let found = self.find_sessions(workspace, |session| session.id == id);
        found.iter().for_each(|session| self.end(session, SessionEnd::Replaced));
    }

    /// Makes a workflow known, as one whose code a worker has. Runs of it are accepted, and wait until a session offers it.
    pub fn learn(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Result<(), Problem> {
        self.register(workspace, workflow)?;
        if self.find_sessions(workspace, |session| session.workflows.contains(workflow)).is_empty() {
            self.engine.workspace(workspace.clone()).set_served(workflow, false);
        }
        Ok(())
    }

    fn register(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Result<(), Problem> {
        let place = (workspace.clone(), workflow.clone());
        let mut state = self.state();
        if state.registered.contains(&place) {
            return Ok(());
        }
        let (this, of) = (self.this.clone(), workflow.clone());
        let function = move |ctx: Ctx, input: RawJson| carry_out(this.clone(), of.clone(), ctx, input);
        let options = WorkflowOptions::default().version(workflow.version).pause_on_violation();
        let engine = self.engine.workspace(workspace.clone());
        match engine.register_for_workspace(workflow.name.as_str(), options, function) {
            Ok(()) => {
                state.registered.insert(place);
                Ok(())
            }
            Err(Error::AlreadyRegistered(_)) => Err(Problem::new(
                Code::WorkflowTaken,
                format!("{workflow} is defined by a document of this workspace."),
            )),
            Err(error) => Err(Problem::new(Code::InvalidRequest, error.to_string())),
        }
    }

    /// Returns whether a worker is connected to this node that offers the workflow.
    pub fn is_offered(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> bool {
        !self.find_sessions(workspace, |session| session.workflows.contains(workflow)).is_empty()
    }

    /// Returns whether the workflow is one whose code workers have.
    pub fn is_of_workers(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> bool {
        self.state().registered.contains(&(workspace.clone(), workflow.clone()))
    }

    /// Names that a session offers.
    pub fn names_of(
        caller: WorkerCaller<'_>,
        asked: &api::OpenWorkerSession,
    ) -> Result<BTreeSet<KnownName>, Problem> {
        let workflows = check(asked)?.into_iter().map(KnownName::Workflow);
        caller.check(asked)?;
        let tasks = asked.tasks.iter().cloned().map(KnownName::Task);
        Ok(workflows.chain(tasks).chain(asked.actions.iter().cloned().map(KnownName::Action)).collect())
    }

    pub(crate) fn find_sessions(
        &self,
        workspace: &WorkspaceId,
        fits: impl Fn(&Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let state = self.state();
        let of_workspace = state.sessions.values().filter(|session| session.workspace == *workspace);
        of_workspace.filter(|session| session.has_ended().is_none() && fits(session)).cloned().collect()
    }

    /// The least busy session that fits.
    pub(crate) fn choose(
        &self,
        workspace: &WorkspaceId,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let fitting = self.find_sessions(workspace, fits);
        let with_room = fitting.into_iter().filter(|session| session.has_mailbox_room());
        with_room.min_by_key(|session| (session.load(), session.id.clone()))
    }

    /// The same; waits a moment for a session to be opened, so that a restart of a worker fails no call.
    pub(crate) async fn choose_soon(
        &self,
        workspace: &WorkspaceId,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let patience = self.engine.clock().sleep(WORKER_WAIT);
        tokio::pin!(patience);
        loop {
            let opened = self.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if let Some(session) = self.choose(workspace, &fits) {
                return Some(session);
            }
            tokio::select! {
                biased;
                () = &mut patience => return None,
                () = opened => {}
            }
        }
    }

    /// The session that carries out a run of the workflow. If none has room, no more runs of it are claimed until one has.
    fn assign(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Option<Arc<Session>> {
        let chosen = self.find_room(workspace, workflow);
        if chosen.is_none() {
            self.state().full.insert((workspace.clone(), workflow.clone()));
            self.engine.workspace(workspace.clone()).set_served(workflow, false);
            // Room may have come in between.
            self.serve_again();
        }
        chosen
    }

    fn find_room(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Option<Arc<Session>> {
        // One workspace has at most half of what the node drives at once under way. Runs that wait do not count.
        let share = (self.engine.max_active() / 2).max(1);
        let of_workspace = self.find_sessions(workspace, |_| true);
        if of_workspace.iter().map(|session| session.under_way()).sum::<usize>() >= share {
            return None;
        }
        let fits =
            |session: &&Arc<Session>| session.workflows.contains(workflow) && session.has_room_for_run();
        let fitting = of_workspace.iter().filter(fits);
        fitting.min_by_key(|session| (session.load(), session.id.clone())).cloned()
    }

    /// Claims runs again of workflows whose sessions have room by now.
    pub(crate) fn serve_again(&self) {
        let full: Vec<_> = {
            let state = self.state();
            if state.full.is_empty() {
                return;
            }
            state.full.iter().cloned().collect()
        };
        for (workspace, workflow) in full {
            if self.is_stopping.load(Ordering::Acquire) || self.find_room(&workspace, &workflow).is_none() {
                continue;
            }
            self.state().full.remove(&(workspace.clone(), workflow.clone()));
            self.engine.workspace(workspace).set_served(&workflow, true);
        }
    }

    /// Finds a session for one of its calls. The worker was heard of.
    pub(crate) fn get(&self, caller: WorkerCaller<'_>, id: &str) -> Result<Arc<Session>, Problem> {
        let workspace = caller.workspace;
        let found = {
            let state = self.state();
            match state.sessions.get(id).filter(|session| session.workspace == *workspace) {
                Some(session) => Ok(session.clone()),
                None => Err(state.ended.iter().find(|(ended, _)| ended == id).map(|(_, end)| *end)),
            }
        };
        let session = found.map_err(gone)?;
        caller.check(&session.facts)?;
        session.hear(self.engine.store().now()).map_err(|end| gone(Some(end)))?;
        Ok(session)
    }

    /// Ends a session on the wish of its worker; answers how it was.
    pub fn close(&self, caller: WorkerCaller<'_>, id: &str) -> Result<api::WorkerSession, Problem> {
        let session = self.get(caller, id)?;
        let shown = session.shown();
        self.end(&session, SessionEnd::Closed);
        Ok(shown)
    }

    /// Ends a session. Its work is free for others.
    fn end(&self, session: &Arc<Session>, why: SessionEnd) {
        let unserved: Vec<WorkflowRef> = {
            let mut state = self.state();
            if state.sessions.remove(&session.id).is_none() {
                return;
            }
            state.ended.push_back((session.id.clone(), why));
            if state.ended.len() > MAX_ENDED_SESSIONS {
                state.ended.pop_front();
            }
            let is_offered = |workflow: &&WorkflowRef| {
                let mut others = state.sessions.values().filter(|other| other.workspace == session.workspace);
                others.any(|other| other.workflows.contains(*workflow))
            };
            session.workflows.iter().filter(|workflow| !is_offered(workflow)).cloned().collect()
        };
        // First nothing more is claimed for it, then its runs are given back.
        let engine = self.engine.workspace(session.workspace.clone());
        unserved.iter().for_each(|workflow| engine.set_served(workflow, false));
        session.end(why);
        tracing::info!(session = %session.id, workspace = %session.workspace, worker = session.name(), why = ?why, "worker session ended");
    }

    /// Ends sessions whose worker was not heard of.
    fn end_silent(&self) {
        let silent: Vec<_> = {
            let state = self.state();
            state.sessions.values().filter(|session| session.is_silent_for(self.lease_for)).cloned().collect()
        };
        silent.iter().for_each(|session| self.end(session, SessionEnd::Silent));
    }

    /// Gives back all runs before the node stops, and ends all sessions. Attempts, tasks and actions under way may end
    /// for up to `patience`; what ends by then needs no second attempt.
    pub async fn wind_down(&self, patience: Duration) {
        self.is_stopping.store(true, Ordering::Release);
        let clock = self.engine.clock();
        let until = clock.monotonic() + patience;
        loop {
            let (registered, sessions): (Vec<_>, Vec<_>) = {
                let state = self.state();
                (state.registered.iter().cloned().collect(), state.sessions.values().cloned().collect())
            };
            // First nothing more is claimed. In each round, because a run may have been claimed a moment ago.
            for (workspace, workflow) in registered {
                self.engine.workspace(workspace).set_served(&workflow, false);
            }
            sessions.iter().for_each(|session| session.give_back_runs());
            let is_quiet = sessions.iter().all(|session| !session.has_work());
            if is_quiet || clock.monotonic() >= until {
                sessions.iter().for_each(|session| self.end(session, SessionEnd::Stopping));
                return;
            }
            clock.sleep(WIND_DOWN_CHECK_EVERY).await;
        }
    }

    /// All sessions of a workspace, the oldest first.
    pub fn list(&self, workspace: &WorkspaceId) -> Vec<api::WorkerSession> {
        let mut shown: Vec<_> =
            self.find_sessions(workspace, |_| true).iter().map(|session| session.shown()).collect();
        shown.sort_by(|a, b| (&a.opened_at, &a.session_id).cmp(&(&b.opened_at, &b.session_id)));
        shown
    }

    /// Reads records of a run that an activation did not have room for.
    pub fn read_log(
        &self,
        caller: WorkerCaller<'_>,
        session: &str,
        run: &str,
        activation: &str,
        after: usize,
    ) -> Result<api::WorkerLogPage, Problem> {
        let session = self.get(caller, session)?;
        let link = session.find_link(activation).filter(|link| link.run == run).ok_or_else(|| {
            Problem::new(Code::NotFound, "The session has no such activation of this run; forget it.")
        })?;
        let records = link.log();
        let from = after.min(records.len());
        let to = first_page(&records, from);
        Ok(api::WorkerLogPage { log: records[from..to].to_vec(), log_more: to < records.len() })
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("sessions", &self.state().sessions.len()).finish_non_exhaustive()
    }
}

/// The function of every workflow whose code workers have.
async fn carry_out(
    workers: Weak<Workers>,
    workflow: WorkflowRef,
    ctx: Ctx,
    input: RawJson,
) -> Result<RawJson, Failure> {
    let session = {
        let workers = workers.upgrade();
        workers.and_then(|workers| workers.assign(ctx.workspace(), &workflow))
    };
    match session {
        Some(session) => run_remotely(ctx, input, session).await,
        None => {
            // The last session went, or was full, while the run was claimed.
            ctx.return_handle().give_back();
            std::future::pending().await
        }
    }
}

pub(crate) fn gone(end: Option<SessionEnd>) -> Problem {
    match end {
        Some(SessionEnd::Replaced) => Problem::new(
            Code::SessionReplaced,
            "A newer session of this instance has the work of this one. Stop, or open a session with another `instance`.",
        ),
        Some(SessionEnd::Stopping) => Problem::new(
            Code::SessionUnknown,
            "The node that had this session stops. Open a new one with POST /api/v1/worker-sessions and forget its runs.",
        ),
        Some(SessionEnd::Silent | SessionEnd::Closed) | None => Problem::new(
            Code::SessionUnknown,
            "This session is over, or never was. Open a new one with POST /api/v1/worker-sessions and forget its runs.",
        ),
    }
}

fn check(asked: &api::OpenWorkerSession) -> Result<BTreeSet<WorkflowRef>, Problem> {
    let refuse = |path: &str, why: String| Problem::new(Code::InvalidRequest, why).with("path", path);
    let labels = [
        ("/name", Some(&asked.name)),
        ("/instance", asked.instance.as_ref()),
        ("/sdk", asked.sdk.as_ref()),
        ("/sdkVersion", asked.sdk_version.as_ref()),
        ("/host", asked.host.as_ref()),
    ];
    for (path, label) in labels {
        let Some(label) = label else { continue };
        let is_bad = label.is_empty()
            || label.chars().count() > MAX_LABEL_CHARS
            || label.chars().any(char::is_control);
        if is_bad {
            let why =
                format!("It must have 1 to {MAX_LABEL_CHARS} characters, none of them a control character.");
            return Err(refuse(path, why));
        }
    }
    if asked.concurrency == 0 || asked.concurrency > MAX_CONCURRENCY {
        return Err(refuse("/concurrency", format!("It is a number from 1 to {MAX_CONCURRENCY}.")));
    }
    let names = asked.workflows.len() + asked.tasks.len() + asked.actions.len();
    if names > MAX_NAMES {
        return Err(refuse(
            "/workflows",
            format!("A session offers at most {MAX_NAMES} names; it has {names}."),
        ));
    }
    let mut workflows = BTreeSet::new();
    for (place, workflow) in asked.workflows.iter().enumerate() {
        let name = Name::new("workflow name", &workflow.name)
            .map_err(|invalid| refuse(&format!("/workflows/{place}/name"), format!("{invalid}.")))?;
        if workflow.version == 0 {
            return Err(refuse(&format!("/workflows/{place}/version"), "Versions count from 1.".into()));
        }
        workflows.insert(WorkflowRef { name, version: workflow.version });
    }
    for (list, names) in [("tasks", &asked.tasks), ("actions", &asked.actions)] {
        for (place, name) in names.iter().enumerate() {
            Name::new("name", name)
                .map_err(|invalid| refuse(&format!("/{list}/{place}"), format!("{invalid}.")))?;
        }
    }
    Ok(workflows)
}

/// Ends silent sessions, for as long as there are workers.
async fn keep_watching(workers: Weak<Workers>, reporter: LoopReporter) {
    loop {
        let Some((clock, every)) = workers.upgrade().map(|workers| {
            let every = SESSION_CHECK_EVERY.min(workers.lease_for / 10);
            (workers.engine.clock(), every)
        }) else {
            return;
        };
        clock.sleep(every).await;
        let Some(workers) = workers.upgrade() else { return };
        workers.end_silent();
        workers.serve_again();
        reporter.pass();
    }
}
