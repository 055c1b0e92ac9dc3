//! Starting a run in the user's transaction: the run exists if and only if it commits.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::Clock;
use hapax_engine::model::NewRun;
use hapax_engine::runtime::{Error, RunHandle, Start};
use hapax_engine::store::{StartOutcome, StoreError, StoreResult};
use tokio::sync::OnceCell;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;

use crate::fault::{Fault, describe};
use crate::interned_names::{InternedNames, WorkflowRowId, WorkspaceRowId};
use crate::limits::MAX_TRIES;
use crate::link::Link;
use crate::pools::Pools;
use crate::rmw_lane::pause;
use crate::rows::uuid;
use crate::session::{Session, params};
use crate::start_run::{check_key, insert_new, subject_holder};
use crate::start_runs::{StartObstacle, read_obstacle};
use crate::store::PostgresStore;
use crate::user_tables::UserTables;

/// Starts that share a transaction of yours.
pub trait StartWithin {
    /// Starts the run inside `transaction`: it exists once you commit, and never if you do not.
    ///
    /// The transaction must be on the store's database. Its `search_path` does not matter, and its
    /// role needs the same rights as the store's. After any result the transaction can continue,
    /// and the call has changed nothing else in it. If another open transaction has taken the key,
    /// the call waits for it up to a limit, then returns [`StoreError::Unavailable`]. In turn, your
    /// transaction makes other starts with that key wait, so commit soon.
    ///
    /// Use the handle after the commit. The commit itself notifies the nodes, so the run begins at
    /// once.
    fn within(
        self,
        transaction: &mut Transaction<'_>,
    ) -> impl Future<Output = Result<RunHandle, Error>> + Send;
}

impl StartWithin for Start {
    async fn within(self, transaction: &mut Transaction<'_>) -> Result<RunHandle, Error> {
        let prepared = self.prepare()?;
        let store = prepared.store();
        let any: &dyn Any = &*store;
        let Some(postgres) = any.downcast_ref::<PostgresStore>() else {
            let why = "only a PostgreSQL store can take a start in your own transaction";
            return Err(StoreError::Refused(why.into()).into());
        };
        let outcome = postgres.start_run_within(prepared.new_run().clone(), transaction).await?;
        prepared.answer(outcome)
    }
}

/// Creates runs in users' transactions.
#[derive(Debug)]
pub(crate) struct UserTransactions {
    pub(crate) pools: Arc<Pools>,
    pub(crate) interned_names: Arc<InternedNames>,
    pub(crate) tables: Arc<UserTables>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Schema of the store's tables, as `search_path` names it.
    pub(crate) search_path: String,
    pub(crate) lock_timeout: Duration,
    /// Hint for all nodes, including this one, which does not know when the user commits.
    pub(crate) hint: String,
    pub(crate) identity: OnceCell<Identity>,
}

/// Identity of the store and of its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity(Uuid, String);

impl UserTransactions {
    /// See [`PostgresStore::start_run_within`].
    pub(crate) async fn start(
        &self,
        new: &NewRun,
        transaction: &mut Transaction<'_>,
    ) -> StoreResult<StartOutcome> {
        check(new).map_err(Fault::into_store_error)?;
        let numbered = self.give_numbers(new).await.map_err(Fault::into_store_error)?;
        let mut tries = 1;
        loop {
            let savepoint = transaction.transaction().await;
            let savepoint = savepoint.map_err(|error| Fault::from(error).into_store_error())?;
            match self.attempt(&savepoint, new, numbered).await {
                Ok(outcome) => {
                    let kept = savepoint.commit().await;
                    return kept.map(|()| outcome).map_err(|error| Fault::from(error).into_store_error());
                }
                Err(fault) => {
                    let rolled_back = savepoint.rollback().await;
                    rolled_back.map_err(|error| Fault::from(error).into_store_error())?;
                    if !fault.is_collision() || tries == MAX_TRIES {
                        return Err(fault.into_store_error());
                    }
                }
            }
            pause(tries).await;
            tries += 1;
        }
    }

    /// On a connection of the store, because a rollback must not remove a known number.
    async fn give_numbers(&self, new: &NewRun) -> Result<(WorkspaceRowId, WorkflowRowId), Fault> {
        let held = self.pools.rmw_lane.get().await?;
        let workspace = self.interned_names.give_workspace(held.link(), &new.facts.workspace).await?;
        let workflow = self.interned_names.give_workflow(held.link(), &new.facts.workflow.name).await?;
        self.identity.get_or_try_init(|| find_identity(held.link())).await?;
        held.give_back();
        Ok((workspace, workflow))
    }

    /// Restores the settings of the transaction; after an error the rollback does.
    async fn attempt(
        &self,
        savepoint: &Transaction<'_>,
        new: &NewRun,
        (workspace, workflow): (WorkspaceRowId, WorkflowRowId),
    ) -> Result<StartOutcome, Fault> {
        let link = Link::Foreign(savepoint);
        let before = only_row(link, include_str!("../sql/find_session_settings.sql"), &[]).await?;
        let patience = format!("{}ms", self.lock_timeout.as_millis());
        visit(link, &self.search_path, &patience).await?;
        self.check_identity(link).await?;
        let mut session = Session::new(link, &self.interned_names, &self.tables, self.clock.now());
        let outcome = start(&mut session, new, workspace, workflow).await?;
        if let StartOutcome::Created(_) = outcome {
            let told = params![self.hint.clone()];
            session.query(include_str!("../sql/notify_due.sql"), told).await?;
        }
        visit(link, before.get(0), before.get(1)).await?;
        Ok(outcome)
    }

    /// Checks that the transaction is on this store, because the numbers of another store mean
    /// other workspaces and workflows.
    async fn check_identity(&self, link: Link<'_>) -> Result<(), Fault> {
        let elsewhere = || Fault::Refused("the transaction is not on the database of this store".into());
        match find_identity(link).await {
            Ok(found) if self.identity.get() == Some(&found) => Ok(()),
            Ok(_) => Err(elsewhere()),
            Err(Fault::Sql(error)) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(elsewhere()),
            Err(Fault::Sql(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let why = "the role of the transaction may not use the tables of the store";
                Err(Fault::Refused(format!("{why}: {}", describe(&error))))
            }
            Err(fault) => Err(fault),
        }
    }
}

fn check(new: &NewRun) -> Result<(), Fault> {
    check_key(&new.facts)?;
    if new.facts.parent.is_some() {
        return Err(Fault::Refused("a child is started by its parent's own write".into()));
    }
    match new.grant.is_some() {
        true => Err(Fault::Refused("a run that is not committed yet cannot be driven".into())),
        false => Ok(()),
    }
}

/// Reads before it writes, without locks: the run of a key must not be blocked for as long as the
/// transaction.
async fn start(
    session: &mut Session<'_>,
    new: &NewRun,
    workspace: WorkspaceRowId,
    workflow: WorkflowRowId,
) -> Result<StartOutcome, Fault> {
    let facts = &*new.facts;
    let key = facts.key.as_ref().map(|key| key.as_str().to_owned());
    let asked = params![1i64, vec![0i32], vec![workspace.0], vec![uuid(facts.id)], vec![key]];
    for row in session.query(include_str!("../sql/find_starts.sql"), asked).await? {
        match read_obstacle(&row, workspace, new, session.now)? {
            StartObstacle::Known(outcome) => return Ok(outcome),
            StartObstacle::Refused(fault) => return Err(fault),
            StartObstacle::Gone => {}
        }
    }
    if let Some(run) = subject_holder(session, workspace, workflow, facts).await? {
        return Ok(StartOutcome::SubjectBusy { run });
    }
    insert_new(session, workspace, workflow, new).await.map(|stored| StartOutcome::Created(stored.head))
}

async fn find_identity(link: Link<'_>) -> Result<Identity, Fault> {
    let row = only_row(link, include_str!("../sql/find_identity.sql"), &[]).await?;
    Ok(Identity(row.get(0), row.get(1)))
}

async fn visit(link: Link<'_>, search_path: &str, lock_timeout: &str) -> Result<(), Fault> {
    only_row(link, include_str!("../sql/visit_schema.sql"), &[&search_path, &lock_timeout]).await.map(drop)
}

async fn only_row(
    link: Link<'_>,
    sql: &'static str,
    params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<Row, Fault> {
    let statement = link.prepare(sql).await?;
    let found = link.query(&statement, params).await?;
    found.into_iter().next().ok_or_else(|| Fault::Broken("a row that is always there is missing".into()))
}
