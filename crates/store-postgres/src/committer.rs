//! Group commit: puts all waiting operations into one statement per kind and one transaction, then
//! answers each caller.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use hapax_engine::clock::Clock;
use hapax_engine::model::{RunCommit, RunState, RunningState, Timestamp, decide_start};
use hapax_engine::store::{CommitOutcome, StartOutcome, StoreError};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::advance_runs::CommitColumns;
use crate::batch::{Batch, HotOp, QueuedWrite, Start};
use crate::batch_outbox::BatchOutbox;
use crate::commit_run::refuse;
use crate::fault::Fault;
use crate::hints::Hints;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::job::{Job, Task};
use crate::limits::{MAX_BATCH, MAX_TRIES};
use crate::pools::{HeldConnection, Pools};
use crate::rmw_lane::pause;
use crate::rows::{self, Columns, StoredHead, uuid};
use crate::start_runs::{DecidedStart, StartColumns, StartObstacle, read_obstacle};

/// Queue of the committers, which take turns in emptying it.
pub(crate) type Inbox = Arc<Mutex<mpsc::Receiver<HotOp>>>;

/// One of the connections that commit.
pub(crate) struct Committer {
    pub(crate) pools: Arc<Pools>,
    pub(crate) interned_names: Arc<InternedNames>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hints: Arc<Hints>,
    /// Receives operations that turn out not to be plain.
    pub(crate) rmw_lane: mpsc::Sender<Box<dyn Task>>,
}

/// Effects of a committed batch.
struct CommittedBatch {
    now: Timestamp,
    /// By position in the batch: the run that was created.
    made: HashMap<usize, StartOutcome>,
    /// By position in the batch: true if the run is due at once.
    moved: HashMap<usize, bool>,
    /// By position in the batch.
    workspaces_of_starts: Vec<WorkspaceRowId>,
    workspaces_of_moves: Vec<Option<WorkspaceRowId>>,
}

impl Committer {
    /// Works until all senders are gone and everything is written.
    pub(crate) async fn run(self, inbox: Inbox) {
        let mut waiting = VecDeque::with_capacity(MAX_BATCH);
        loop {
            gather(&inbox, &mut waiting).await;
            if waiting.is_empty() {
                return;
            }
            let written = AssertUnwindSafe(self.write(Batch::take(&mut waiting))).catch_unwind().await;
            if written.is_err() {
                // The callers get an unknown outcome, and the connection is dropped. The next batch
                // is not affected.
                tracing::error!("a batch of writes failed by a fault of the store");
            }
        }
    }

    /// Commits all together, or each alone if one of them fails.
    async fn write(&self, mut batch: Batch) {
        let patience = self.pools.commits.deadline();
        batch.turn_away(patience);
        if batch.len() == 0 {
            return;
        }
        match self.write_together(batch).await {
            Ok(()) => {}
            Err((batch, fault)) if batch.len() == 1 => batch.fail(&fault),
            Err((batch, _)) => {
                for mut single in batch.into_singles() {
                    single.turn_away(patience);
                    if single.len() == 0 {
                        continue;
                    }
                    if let Err((single, error)) = self.write_together(single).await {
                        single.fail(&error);
                    }
                }
            }
        }
    }

    /// Returns the batch if one of its operations is at fault; reports any other failure to all
    /// callers.
    async fn write_together(&self, batch: Batch) -> Result<(), (Batch, StoreError)> {
        let mut tries = 1;
        loop {
            let is_committing = AtomicBool::new(false);
            let fault = match self.commit(&batch, &is_committing).await {
                Ok((written, held)) => {
                    self.answer(batch, written, held).await;
                    return Ok(());
                }
                Err(fault) => fault,
            };
            if fault.is_collision() && tries < MAX_TRIES {
                pause(tries).await;
                tries += 1;
                continue;
            }
            let is_of_operation = fault.is_of_operation();
            let error = match is_committing.load(Ordering::Relaxed) {
                true => fault.into_commit_error(),
                false => fault.into_store_error(),
            };
            if is_of_operation {
                return Err((batch, error));
            }
            batch.fail(&error);
            return Ok(());
        }
    }

    async fn commit(
        &self,
        batch: &Batch,
        is_committing: &AtomicBool,
    ) -> Result<(CommittedBatch, HeldConnection), Fault> {
        let held = self.pools.commits.get().await?;
        let work = self.transact(&held, batch, is_committing);
        let deadline = self.pools.commits.deadline();
        let done = tokio::time::timeout(deadline, work).await;
        match done.unwrap_or(Err(Fault::OutOfTime(deadline))) {
            Ok(written) => Ok((written, held)),
            Err(fault) => {
                // The statement was a transaction by itself, or its transaction ended with the commit behind it.
                if fault.leaves_connection_sound() {
                    held.give_back();
                }
                Err(fault)
            }
        }
    }

    async fn transact(
        &self,
        held: &HeldConnection,
        batch: &Batch,
        is_committing: &AtomicBool,
    ) -> Result<CommittedBatch, Fault> {
        let mut workspaces_of_moves = Vec::with_capacity(batch.moves.len());
        for QueuedWrite { advance, .. } in &batch.moves {
            workspaces_of_moves
                .push(self.interned_names.find_workspace(held.link(), advance.workspace()).await?);
        }
        let mut numbered = Vec::with_capacity(batch.starts.len());
        for Start { new, .. } in &batch.starts {
            let workspace = self.interned_names.give_workspace(held.link(), &new.facts.workspace).await?;
            numbered.push((
                workspace,
                self.interned_names.give_workflow(held.link(), &new.facts.workflow.name).await?,
            ));
        }
        let outbox = BatchOutbox::by(&batch.moves, &workspaces_of_moves, held, &self.interned_names).await?;
        // Read after the batch was taken, so no operation is judged by an earlier instant than its
        // sending.
        let now = self.clock.now();
        let starts: Vec<DecidedStart<'_>> = numbered
            .iter()
            .zip(&batch.starts)
            .enumerate()
            .map(|(n, ((workspace, workflow), Start { new, .. }))| {
                let (head, started) = decide_start(new, now);
                DecidedStart { n: n as i32, workspace: *workspace, workflow: *workflow, new, head, started }
            })
            .collect();
        let moves: Vec<_> = workspaces_of_moves
            .iter()
            .zip(&batch.moves)
            .enumerate()
            .filter_map(|(n, (workspace, moved))| Some((n as i32, (*workspace)?, &*moved.advance)))
            .collect();
        let (made, moved) = send(held, &starts, &moves, &outbox, now, is_committing).await?;
        let mut written = CommittedBatch {
            now,
            made: HashMap::with_capacity(made.len()),
            moved: HashMap::with_capacity(moved.len()),
            workspaces_of_starts: numbered.iter().map(|(workspace, _)| *workspace).collect(),
            workspaces_of_moves,
        };
        for row in &made {
            let n = Columns::of(row).get::<i32>()? as usize;
            written.made.insert(n, StartOutcome::Created(starts[n].head.clone()));
        }
        for row in &moved {
            let mut row = Columns::of(row);
            written.moved.insert(row.get::<i32>()? as usize, row.get()?);
        }
        Ok(written)
    }

    /// Answers the callers of effective writes, and explains the others.
    async fn answer(&self, batch: Batch, mut written: CommittedBatch, held: HeldConnection) {
        let (mut starts, mut moves) = (Vec::new(), Vec::new());
        let mut has_woken = false;
        for (n, start) in batch.starts.into_iter().enumerate() {
            match written.made.remove(&n) {
                Some(outcome) => {
                    has_woken |=
                        matches!(&outcome, StartOutcome::Created(head) if head.state.lease().is_none());
                    let _ = start.reply.send(Ok(outcome));
                }
                None => starts.push((written.workspaces_of_starts[n], start)),
            }
        }
        for (n, moved) in batch.moves.into_iter().enumerate() {
            match (written.moved.get(&n), written.workspaces_of_moves[n]) {
                (Some(is_due), _) => {
                    // Parked too early, or released: any node may claim it.
                    let is_ready =
                        matches!(moved.advance.head.state, RunState::Running(RunningState::Ready { .. }));
                    has_woken |= *is_due || is_ready;
                    let woken = if *is_due { vec![moved.advance.run()] } else { Vec::new() };
                    let _ = moved.reply.send(Ok(CommitOutcome::Committed { woken, opened: Vec::new() }));
                }
                (None, Some(workspace)) => moves.push((workspace, moved)),
                (None, None) => drop(moved.reply.send(Ok(CommitOutcome::LeaseLost))),
            }
        }
        if has_woken {
            self.hints.note();
        }
        if starts.is_empty() && moves.is_empty() {
            return held.give_back();
        }
        let deadline = self.pools.commits.deadline();
        let explained = tokio::time::timeout(deadline, explain(&held, &starts, &moves));
        match explained.await.unwrap_or(Err(Fault::OutOfTime(deadline))) {
            Ok((rows_of_starts, heads)) => {
                held.give_back();
                self.answer_starts(starts, &rows_of_starts, written.now).await;
                self.answer_moves(moves, heads).await;
            }
            Err(fault) => {
                // This batch did not write them; the next try will show whether an earlier one did.
                let error = StoreError::Unknown(fault.into_store_error().to_string());
                let starts = starts.into_iter().map(|(_, start)| start).collect();
                let moves = moves.into_iter().map(|(_, moved)| moved).collect();
                Batch { starts, moves }.fail(&error);
            }
        }
    }

    async fn answer_starts(&self, starts: Vec<(WorkspaceRowId, Start)>, found: &[Row], now: Timestamp) {
        let mut obstacles = HashMap::new();
        for row in found {
            if let Ok(n) = Columns::of(row).get::<i32>() {
                obstacles.insert(n as usize, row);
            }
        }
        for (n, (workspace, start)) in starts.into_iter().enumerate() {
            let obstacle = match obstacles.get(&n) {
                Some(row) => read_obstacle(row, workspace, &start.new, now),
                None => Ok(StartObstacle::Gone),
            };
            let Start { new, reply, entered } = start;
            match obstacle {
                Ok(StartObstacle::Known(outcome)) => drop(reply.send(Ok(outcome))),
                Ok(StartObstacle::Gone) => self.consider(Job::boxed(new, reply, entered)).await,
                Ok(StartObstacle::Refused(fault)) | Err(fault) => {
                    drop(reply.send(Err(fault.into_store_error())));
                }
            }
        }
    }

    async fn answer_moves(
        &self,
        moves: Vec<(WorkspaceRowId, QueuedWrite)>,
        heads: HashMap<Uuid, StoredHead>,
    ) {
        for (_, QueuedWrite { advance, reply, entered }) in moves {
            match heads.get(&uuid(advance.run())) {
                None => drop(reply.send(Ok(CommitOutcome::LeaseLost))),
                Some(stored) => match refuse(&advance, stored) {
                    // There may be news about the promises that it opened earlier.
                    Some(CommitOutcome::Committed { .. }) if !advance.promises.is_empty() => {
                        self.consider(Job::boxed(*advance, reply, entered)).await;
                    }
                    Some(outcome) => drop(reply.send(Ok(outcome))),
                    // It is valid, so it was held back because its end concerns children, or
                    // because a promise has a key.
                    None => self.consider(Job::boxed(*advance, reply, entered)).await,
                },
            }
        }
    }

    async fn consider(&self, task: Box<dyn Task>) {
        if let Err(closed) = self.rmw_lane.send(task).await {
            closed.0.fail(StoreError::Unavailable("the store is closed".into()));
        }
    }
}

/// Waits for operations, then lets callers that are about to send do so: a caller that was just
/// answered comes back at once, and waiting for it costs less than another commit.
async fn gather(inbox: &Inbox, waiting: &mut VecDeque<HotOp>) {
    // A committer with work does not wait behind an idle one.
    let mut inbox = match waiting.is_empty() {
        true => inbox.lock().await,
        false => match inbox.try_lock() {
            Ok(inbox) => inbox,
            Err(_) => return,
        },
    };
    let mut taken = Vec::new();
    if waiting.is_empty() && inbox.recv_many(&mut taken, MAX_BATCH).await == 0 {
        return;
    }
    loop {
        tokio::task::yield_now().await;
        let before = taken.len();
        while waiting.len() + taken.len() < MAX_BATCH
            && let Ok(op) = inbox.try_recv()
        {
            taken.push(op);
        }
        if taken.len() == before {
            break;
        }
    }
    waiting.extend(taken);
}

/// Sends one statement per kind; in one transaction if there are several. Returns the operations
/// that took effect.
async fn send(
    held: &HeldConnection,
    starts: &[DecidedStart<'_>],
    moves: &[(i32, WorkspaceRowId, &RunCommit)],
    outbox: &BatchOutbox,
    now: Timestamp,
    is_committing: &AtomicBool,
) -> Result<(Vec<Row>, Vec<Row>), Fault> {
    let start_columns = StartColumns::new(starts, now);
    let move_columns = CommitColumns::new(moves, now)?;
    let start = async || -> Result<Vec<Row>, Error> {
        let statement = held.prepare_cached(include_str!("../sql/start_runs.sql")).await?;
        held.query(&statement, &start_columns.params()).await
    };
    let advance = async || -> Result<Vec<Row>, Error> {
        let statement = held.prepare_cached(include_str!("../sql/advance_runs.sql")).await?;
        held.query(&statement, &move_columns.params()).await
    };
    is_committing.store(true, Ordering::Relaxed);
    match (starts.is_empty(), moves.is_empty()) {
        (true, true) => Ok((Vec::new(), Vec::new())),
        (false, true) => Ok((start().await?, Vec::new())),
        (true, false) if outbox.is_empty() => Ok((Vec::new(), advance().await?)),
        (has_no_starts, false) => {
            // Prepared first, so that the statements below are sent in this order and without
            // waiting.
            held.prepare_cached(include_str!("../sql/advance_runs.sql")).await?;
            if !has_no_starts {
                held.prepare_cached(include_str!("../sql/start_runs.sql")).await?;
            }
            outbox.prepare(held).await?;
            let (begun, moved, noted, posted, made, committed) = futures_util::join!(
                held.batch_execute("BEGIN"),
                advance(),
                outbox.send_notes(held),
                outbox.send_posts(held),
                async {
                    match has_no_starts {
                        true => Ok(Vec::new()),
                        false => start().await,
                    }
                },
                held.batch_execute("COMMIT")
            );
            begun?;
            let moved = moved?;
            noted?;
            posted?;
            let made = made?;
            committed?;
            Ok((made, moved))
        }
    }
}

/// Obstacles to starts, by their position; and the runs of writes that did not take effect.
async fn explain(
    held: &HeldConnection,
    starts: &[(WorkspaceRowId, Start)],
    moves: &[(WorkspaceRowId, QueuedWrite)],
) -> Result<(Vec<Row>, HashMap<Uuid, StoredHead>), Fault> {
    let mut obstacles = Vec::new();
    if !starts.is_empty() {
        let statement = held.prepare_cached(include_str!("../sql/find_starts.sql")).await?;
        let n: Vec<i32> = (0..starts.len() as i32).collect();
        let workspaces: Vec<i32> = starts.iter().map(|(workspace, _)| workspace.0).collect();
        let ids: Vec<Uuid> = starts.iter().map(|(_, start)| uuid(start.new.facts.id)).collect();
        let keys: Vec<Option<&str>> =
            starts.iter().map(|(_, start)| start.new.facts.key.as_ref().map(|key| key.as_str())).collect();
        let limit = starts.len() as i64;
        obstacles = held.query(&statement, &[&limit, &n, &workspaces, &ids, &keys]).await?;
    }
    let mut heads = HashMap::new();
    if !moves.is_empty() {
        let statement = held.prepare_cached(include_str!("../sql/find_heads.sql")).await?;
        let workspaces: Vec<i32> = moves.iter().map(|(workspace, _)| workspace.0).collect();
        let ids: Vec<Uuid> = moves.iter().map(|(_, moved)| uuid(moved.advance.run())).collect();
        let limit = moves.len() as i64;
        for row in &held.query(&statement, &[&limit, &workspaces, &ids]).await? {
            let stored = rows::stored_head(&mut Columns::of(row))?;
            heads.insert(uuid(stored.head.id()), stored);
        }
    }
    Ok((obstacles, heads))
}
