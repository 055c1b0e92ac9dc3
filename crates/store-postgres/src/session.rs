//! Working state of an operation inside a transaction: locked runs, the time, interned names, and
//! batched writes.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::future::BoxFuture;
use hapax_engine::model::{
    Name, Promise, PromiseId, RunEvent, RunId, SignalId, TableRef, Timestamp, WorkspaceId,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::add_key_usage;
use crate::codes::{Code, count, millis, millis_of};
use crate::entities::{self, KnownEntities};
use crate::families::{self, KnownFamilies};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkflowRowId, WorkspaceRowId};
use crate::job::Needs;
use crate::link::{Link, Sql};
use crate::promise_keys::{self, KnownKeys};
use crate::promises::promise;
use crate::requests::{self, KnownRequests};
use crate::rows::{self, Columns, StoredHead, uuid};
use crate::standalone_promises::{self, LockedPromises, PromisePlace};
use crate::user_tables::{UserTable, UserTables};

/// The parameters of a statement.
pub(crate) type Params = Vec<Box<dyn ToSql + Sync + Send>>;

/// Boxes parameters: `params![workspace.0, uuid(run)]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>),*]
    };
}
pub(crate) use params;

/// One transaction, judged by one instant.
///
/// Writes are queued and sent with the next read or the commit, so an operation waits for the
/// server about once. Writes to a run, its promises and its signals happen under the lock of the
/// run.
pub(crate) struct Session<'c> {
    client: Link<'c>,
    interned_names: &'c InternedNames,
    /// The instant everything is judged by.
    pub(crate) now: Timestamp,
    /// Has any work become due that every node may claim?
    pub(crate) has_woken: bool,
    is_begun: bool,
    /// Locked runs, with the changes of this session; `None` for a missing one.
    runs: HashMap<(WorkspaceRowId, RunId), Option<StoredHead>>,
    /// Locked families.
    pub(crate) families: KnownFamilies,
    /// Promises of locked runs, or locked themselves, with the changes of this session; `None` for
    /// a missing one.
    promises: HashMap<PromisePlace, Option<Promise>>,
    /// Locked promises without a run.
    pub(crate) alone: LockedPromises,
    /// Keys of promises.
    pub(crate) promise_keys: KnownKeys,
    /// Signal ids of locked runs: true if the run has seen the id.
    signal_ids: HashMap<(WorkspaceRowId, RunId, SignalId), bool>,
    /// Foreseen requests.
    pub(crate) requests: KnownRequests,
    /// Entities and operations.
    pub(crate) entities: KnownEntities,
    tables: &'c UserTables,
    kept_back: Vec<(Sql, Params)>,
}

/// Result of a request to the server.
enum Answer {
    Done,
    Changed(u64),
    Rows(Vec<Row>),
}

type Request<'a> = BoxFuture<'a, Result<Answer, Error>>;

impl<'c> Session<'c> {
    pub(crate) fn new(
        client: Link<'c>,
        interned_names: &'c InternedNames,
        tables: &'c UserTables,
        now: Timestamp,
    ) -> Self {
        Session {
            client,
            interned_names,
            now,
            has_woken: false,
            // The user begins and ends a shared transaction.
            is_begun: !matches!(client, Link::Own(_)),
            runs: HashMap::new(),
            families: KnownFamilies::new(),
            promises: HashMap::new(),
            alone: LockedPromises::new(),
            promise_keys: KnownKeys::new(),
            signal_ids: HashMap::new(),
            requests: KnownRequests::new(),
            entities: KnownEntities::default(),
            tables,
            kept_back: Vec::new(),
        }
    }

    pub(crate) async fn find_workspace(&self, name: &WorkspaceId) -> Result<Option<WorkspaceRowId>, Fault> {
        self.interned_names.find_workspace(self.client, name).await
    }

    pub(crate) async fn find_workflow(&self, name: &Name) -> Result<Option<WorkflowRowId>, Fault> {
        self.interned_names.find_workflow(self.client, name).await
    }

    /// The number of a workspace that [`crate::job::Verb::names`] named.
    pub(crate) async fn get_workspace(&self, name: &WorkspaceId) -> Result<WorkspaceRowId, Fault> {
        let found = self.find_workspace(name).await?;
        found.ok_or_else(|| Fault::Broken(format!("workspace {name} has no number")))
    }

    /// The number of a workflow that [`crate::job::Verb::names`] named.
    pub(crate) async fn get_workflow(&self, name: &Name) -> Result<WorkflowRowId, Fault> {
        let found = self.find_workflow(name).await?;
        found.ok_or_else(|| Fault::Broken(format!("workflow {name} has no number")))
    }

    /// Description of a user's table; an error if it cannot be used.
    pub(crate) async fn get_table(&self, table: &TableRef) -> Result<Arc<UserTable>, Fault> {
        self.tables.get_table(self.client, table).await
    }

    /// Locks and reads everything that is foreseen, so that the operations themselves hardly ever
    /// wait.
    ///
    /// The lock order of all nodes: promises without a run, then runs, then families, then keys of
    /// promises. Operations on entities lock nothing else.
    pub(crate) async fn prepare_for(&mut self, needs: &Needs) -> Result<(), Fault> {
        let mut runs = Vec::with_capacity(needs.runs.len() + needs.promises.len());
        for (workspace, run) in &needs.runs {
            runs.extend(self.find_workspace(workspace).await?.map(|workspace| (workspace, *run)));
        }
        let mut promises = Vec::with_capacity(needs.promises.len());
        for (workspace, id) in &needs.promises {
            promises.extend(self.find_workspace(workspace).await?.map(|workspace| (workspace, id.clone())));
        }
        let mut keys = BTreeSet::new();
        for (workspace, key) in &needs.promise_keys {
            keys.extend(self.find_workspace(workspace).await?.map(|workspace| (workspace, key.clone())));
        }
        promises.extend(promise_keys::find_named(self, &keys).await?);
        keys.extend(add_key_usage::promise_keys(self, &needs.uses).await?);
        let mut alone = Vec::new();
        for row in &self.read_promises(&promises).await? {
            let mut row = Columns::of(row);
            let workspace = WorkspaceRowId(row.get()?);
            let promise = promise(row)?;
            match promise.is_standalone() {
                true => alone.push((workspace, promise.id)),
                false => runs.push((workspace, promise.run)),
            }
            keys.extend(promise.key.map(|key| (workspace, key.key)));
        }
        if !alone.is_empty() {
            standalone_promises::lock(self, alone).await?;
            let waiters = self.alone.iter();
            runs.extend(waiters.flat_map(|((workspace, _), runs)| runs.iter().map(|run| (*workspace, *run))));
        }
        self.lock(&runs).await?;
        // Read again, since they are stable only under the locks.
        let found = self.read_promises(&promises).await?;
        self.promises.extend(promises.into_iter().map(|place| (place, None)));
        for row in &found {
            let mut row = Columns::of(row);
            let workspace = WorkspaceRowId(row.get()?);
            let promise = promise(row)?;
            if self.is_locked(workspace, &promise) {
                self.note_promise(workspace, promise);
            } else {
                // Opened between the two reads, for a run that is not locked.
                self.forget_promise(workspace, &promise.id);
            }
        }
        self.lock_families(needs).await?;
        promise_keys::lock(self, &keys).await?;
        self.read_signal_ids(&needs.signal_ids).await?;
        requests::prepare(self, needs).await?;
        entities::prepare(self, &needs.entities).await?;
        add_key_usage::add(self, &needs.uses).await
    }

    async fn lock_families(&mut self, needs: &Needs) -> Result<(), Fault> {
        let mut roots = BTreeSet::new();
        for (workspace, root) in &needs.families {
            roots.extend(self.find_workspace(workspace).await?.map(|workspace| (*root, workspace)));
        }
        families::lock(self, &roots).await
    }

    /// Returns true if this session holds the lock of a promise: its run or its own row.
    fn is_locked(&self, workspace: WorkspaceRowId, promise: &Promise) -> bool {
        match promise.is_standalone() {
            true => self.alone.contains_key(&(workspace, promise.id.clone())),
            false => self.runs.contains_key(&(workspace, promise.run)),
        }
    }

    async fn read_promises(&mut self, places: &[(WorkspaceRowId, PromiseId)]) -> Result<Vec<Row>, Fault> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let workspaces: Vec<i32> = places.iter().map(|(workspace, _)| workspace.0).collect();
        let ids: Vec<String> = places.iter().map(|(_, id)| id.as_str().to_owned()).collect();
        let asked = params![places.len() as i64, workspaces, ids];
        self.query(include_str!("../sql/find_promises.sql"), asked).await
    }

    async fn read_signal_ids(&mut self, wanted: &[(WorkspaceId, RunId, SignalId)]) -> Result<(), Fault> {
        let mut places = Vec::with_capacity(wanted.len());
        for (workspace, run, id) in wanted {
            places
                .extend(self.find_workspace(workspace).await?.map(|workspace| (workspace, *run, id.clone())));
        }
        if places.is_empty() {
            return Ok(());
        }
        let workspaces: Vec<i32> = places.iter().map(|(workspace, ..)| workspace.0).collect();
        let runs: Vec<uuid::Uuid> = places.iter().map(|(_, run, _)| uuid(*run)).collect();
        let ids: Vec<String> = places.iter().map(|(.., id)| id.as_str().to_owned()).collect();
        let asked = params![places.len() as i64, workspaces, runs, ids];
        let found = self.query(include_str!("../sql/find_signal_ids.sql"), asked).await?;
        self.signal_ids.extend(places.into_iter().map(|place| (place, false)));
        for row in &found {
            let mut row = Columns::of(row);
            let (workspace, run) = (WorkspaceRowId(row.get()?), row.run()?);
            self.signal_ids.insert((workspace, run, rows::signal_id(&mut row)?), true);
        }
        Ok(())
    }

    /// A promise under the lock of its run or its own, with the changes of this session.
    pub(crate) async fn find_promise(
        &mut self,
        workspace: WorkspaceRowId,
        id: &PromiseId,
    ) -> Result<Option<Promise>, Fault> {
        let place = (workspace, id.clone());
        loop {
            if let Some(known) = self.promises.get(&place) {
                return Ok(known.clone());
            }
            let found = self.read_promises(std::slice::from_ref(&place)).await?;
            let promise = rows::at_most_one(&found, |mut row| {
                row.get::<i32>()?;
                promise(row)
            })?;
            match promise {
                // It is stable only under the lock.
                Some(promise) if !self.is_locked(workspace, &promise) => match promise.is_standalone() {
                    true => standalone_promises::lock(self, vec![place.clone()]).await?,
                    false => self.lock(&[(workspace, promise.run)]).await?,
                },
                known => drop(self.promises.insert(place.clone(), known)),
            }
        }
    }

    /// Notes a promise that this session has just written.
    pub(crate) fn note_promise(&mut self, workspace: WorkspaceRowId, promise: Promise) {
        self.promises.insert((workspace, promise.id.clone()), Some(promise));
    }

    /// Drops what this session knows of a promise.
    pub(crate) fn forget_promise(&mut self, workspace: WorkspaceRowId, id: &PromiseId) {
        self.promises.remove(&(workspace, id.clone()));
    }

    /// Drops what this session knows of all promises and their keys.
    pub(crate) fn forget_promises(&mut self) {
        self.promises.clear();
        self.promise_keys.clear();
    }

    /// Returns true if a locked run has seen a signal with this id.
    pub(crate) async fn has_signal_id(
        &mut self,
        workspace: WorkspaceRowId,
        run: RunId,
        id: &SignalId,
    ) -> Result<bool, Fault> {
        if let Some(known) = self.signal_ids.get(&(workspace, run, id.clone())) {
            return Ok(*known);
        }
        let asked = params![1i64, vec![workspace.0], vec![uuid(run)], vec![id.as_str().to_owned()]];
        let found = self.query(include_str!("../sql/find_signal_ids.sql"), asked).await?;
        Ok(!found.is_empty())
    }

    pub(crate) fn insert_signal_id(&mut self, workspace: WorkspaceRowId, run: RunId, id: &SignalId) {
        let seen = params![workspace.0, uuid(run), id.as_str().to_owned()];
        self.keep_back(include_str!("../sql/insert_signal_id.sql"), seen);
        self.signal_ids.insert((workspace, run, id.clone()), true);
    }

    /// Locks runs in the order of their ids and reads them; runs that are already locked stay as
    /// they are.
    pub(crate) async fn lock(&mut self, wanted: &[(WorkspaceRowId, RunId)]) -> Result<(), Fault> {
        let mut new: Vec<(WorkspaceRowId, RunId)> =
            wanted.iter().filter(|place| !self.runs.contains_key(place)).copied().collect();
        new.sort_unstable_by_key(|(workspace, run)| (*run, *workspace));
        new.dedup();
        if new.is_empty() {
            return Ok(());
        }
        let number = new.len() as i64;
        let workspaces: Vec<i32> = new.iter().map(|(workspace, _)| workspace.0).collect();
        let ids: Vec<uuid::Uuid> = new.iter().map(|(_, run)| uuid(*run)).collect();
        self.keep_back(
            include_str!("../sql/lock_runs.sql"),
            params![number, workspaces.clone(), ids.clone()],
        );
        // A separate statement, so that it sees changes that were committed while this one waited
        // for the locks.
        let found =
            self.query(include_str!("../sql/find_heads.sql"), params![number, workspaces, ids]).await?;
        self.runs.extend(new.into_iter().map(|place| (place, None)));
        for row in &found {
            let stored = rows::stored_head(&mut Columns::of(row))?;
            self.runs.insert((stored.workspace, stored.head.id()), Some(stored));
        }
        Ok(())
    }

    /// A locked run, with the changes of this session.
    pub(crate) async fn find_head(
        &mut self,
        workspace: WorkspaceRowId,
        run: RunId,
    ) -> Result<Option<StoredHead>, Fault> {
        self.lock(&[(workspace, run)]).await?;
        Ok(self.runs.get(&(workspace, run)).cloned().flatten())
    }

    /// Writes all mutable columns of a locked run.
    pub(crate) fn write_head(&mut self, stored: StoredHead) {
        let head = &stored.head;
        self.keep_back(
            include_str!("../sql/write_head.sql"),
            params![
                stored.workspace.0,
                uuid(head.id()),
                count(head.version.get()),
                millis(head.changed_at),
                head.stalls.cast_signed(),
                count(head.fence.get()),
                head.status().code(),
                millis_of(head.state.wake_at()),
                rows::lease_owner(&head.state),
                count(head.arrivals),
                millis_of(head.started_at),
                head.generation.get().cast_signed(),
                head.asked.code(),
                millis_of(rows::closed_at(&head.state)),
                stored.token.map(|token| token.get()),
                stored.has_children,
            ],
        );
        self.runs.insert((stored.workspace, stored.head.id()), Some(stored));
    }

    /// Notes a run that this session has just inserted; it is invisible to others.
    pub(crate) fn note_inserted(&mut self, stored: StoredHead) {
        self.runs.insert((stored.workspace, stored.head.id()), Some(stored));
    }

    pub(crate) fn insert_event(&mut self, workspace: WorkspaceRowId, run: RunId, event: &RunEvent) {
        self.keep_back(
            include_str!("../sql/insert_event.sql"),
            params![
                workspace.0,
                uuid(run),
                count(event.version.get()),
                millis(event.at),
                count(event.fence.get()),
                event.kind.code(),
                event.note.clone(),
            ],
        );
    }

    /// Queues a write whose result is not needed before the commit.
    pub(crate) fn keep_back(&mut self, sql: &'static str, params: Params) {
        self.kept_back.push((sql.into(), params));
    }

    /// Queues a write that changes no row if another transaction was faster.
    pub(crate) async fn write_before_rivals(
        &mut self,
        sql: &'static str,
        params: Params,
    ) -> Result<(), Fault> {
        self.kept_back.push((sql.into(), params));
        match self.send(Vec::new(), false).await?.pop() {
            Some(Answer::Changed(0)) => Err(Fault::Rival),
            None | Some(Answer::Done | Answer::Changed(_) | Answer::Rows(_)) => Ok(()),
        }
    }

    /// Sends the queued writes, and a read that sees them.
    pub(crate) async fn query(&mut self, sql: impl Into<Sql>, params: Params) -> Result<Vec<Row>, Fault> {
        let answers = self.query_all(vec![(sql.into(), params)]).await?;
        answers.into_iter().next().ok_or_else(|| Fault::Broken("a read was not answered".into()))
    }

    /// Sends the queued writes, and reads that see them. Each read also sees changes that were
    /// committed while earlier ones waited for locks.
    pub(crate) async fn query_all(&mut self, reads: Vec<(Sql, Params)>) -> Result<Vec<Vec<Row>>, Fault> {
        let number = reads.len();
        let mut answers = self.send(reads, false).await?;
        let rows = |answer| match answer {
            Answer::Rows(rows) => Ok(rows),
            Answer::Done | Answer::Changed(_) => Err(Fault::Broken("a read was answered as a write".into())),
        };
        answers.drain(answers.len().saturating_sub(number)..).map(rows).collect()
    }

    /// Sends the queued writes.
    pub(crate) async fn flush(&mut self) -> Result<(), Fault> {
        entities::write_out(self).await?;
        match self.kept_back.is_empty() {
            true => Ok(()),
            false => self.send(Vec::new(), false).await.map(drop),
        }
    }

    /// Sends the queued writes, and commits. From `is_committing` on, the outcome is unknown until
    /// the response.
    pub(crate) async fn commit(&mut self, is_committing: &AtomicBool) -> Result<(), Fault> {
        entities::write_out(self).await?;
        if !self.is_begun && self.kept_back.is_empty() {
            return Ok(());
        }
        is_committing.store(true, Ordering::Relaxed);
        self.send(Vec::new(), true).await.map(drop)
    }

    /// Sends everything at once: the beginning, the queued writes, reads, the commit. Returns each
    /// result.
    async fn send(&mut self, reads: Vec<(Sql, Params)>, commits: bool) -> Result<Vec<Answer>, Fault> {
        let client = self.client;
        let mut requests: Vec<Request<'_>> = Vec::with_capacity(self.kept_back.len() + reads.len() + 2);
        if !self.is_begun {
            requests.push(Box::pin(async { client.batch_execute("BEGIN").await.map(|()| Answer::Done) }));
            self.is_begun = true;
        }
        for (sql, params) in std::mem::take(&mut self.kept_back) {
            let statement = client.prepare(sql.as_str()).await?;
            requests
                .push(Box::pin(async move { client.execute(&statement, params).await.map(Answer::Changed) }));
        }
        for (sql, params) in reads {
            let statement = client.prepare(sql.as_str()).await?;
            requests.push(Box::pin(async move {
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                client.query(&statement, &params).await.map(Answer::Rows)
            }));
        }
        if commits {
            requests.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| Answer::Done) }));
        }
        in_order(requests).await
    }
}

/// Sends all requests before it waits for the first result: each is sent when it is first polled.
/// Returns all results, or the first error, since later requests only report that the transaction
/// has failed.
async fn in_order(mut requests: Vec<Request<'_>>) -> Result<Vec<Answer>, Fault> {
    let mut early = Vec::with_capacity(requests.len());
    for request in &mut requests {
        early.push(match futures_util::poll!(Pin::new(request)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        });
    }
    let mut answers = Vec::with_capacity(requests.len());
    for (request, early) in requests.into_iter().zip(early) {
        answers.push(match early {
            Some(answer) => answer?,
            None => request.await?,
        });
    }
    Ok(answers)
}
