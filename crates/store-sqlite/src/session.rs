//! Working state of an operation inside the writer's transaction: the connection, the time, and
//! interned names.

use std::collections::HashMap;

use hapax_engine::model::{Name, RunEvent, RunHead, RunId, Timestamp, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::codes::{Code, count, millis, millis_of};
use crate::fault::Fault;
use crate::find;
use crate::rows;
use crate::statements::{Prepared, Statements};

/// A workspace as the number it has in this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkspaceRowId(pub(crate) i64);

/// A workflow name as the number it has in this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkflowRowId(pub(crate) i64);

/// InternedNames of names seen so far. A number never changes once it is committed, also not by another process.
#[derive(Debug, Default)]
pub(crate) struct InternedNames {
    workspaces: HashMap<WorkspaceId, WorkspaceRowId>,
    workflows: HashMap<Name, WorkflowRowId>,
}

impl InternedNames {
    /// Drops all cached numbers, because a rollback may have removed some.
    pub(crate) fn forget(&mut self) {
        self.workspaces.clear();
        self.workflows.clear();
    }
}

/// One transaction, or a part of one that is judged by one instant.
pub(crate) struct Session<'s, 'c> {
    statements: &'s Statements<'c>,
    interned_names: &'s mut InternedNames,
    /// The instant everything is judged by.
    pub(crate) now: Timestamp,
}

impl<'s, 'c> Session<'s, 'c> {
    pub(crate) fn new(
        statements: &'s Statements<'c>,
        interned_names: &'s mut InternedNames,
        now: Timestamp,
    ) -> Self {
        Session { statements, interned_names, now }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.statements.connection()
    }

    /// The statements at hand in this transaction.
    pub(crate) fn statements(&self) -> &'s Statements<'c> {
        self.statements
    }

    /// A statement from `sql/`, prepared once per connection.
    pub(crate) fn prepare(&self, sql: &'static str) -> rusqlite::Result<Prepared<'s, 'c>> {
        self.statements.take(sql)
    }

    pub(crate) fn find_workspace(&mut self, name: &WorkspaceId) -> Result<Option<WorkspaceRowId>, Fault> {
        if let Some(number) = self.interned_names.workspaces.get(name) {
            return Ok(Some(*number));
        }
        let mut find = self.prepare(include_str!("../sql/find_workspace.sql"))?;
        let found = find.query_row([name.as_str()], |row| row.get(0)).optional()?.map(WorkspaceRowId);
        if let Some(number) = found {
            self.interned_names.workspaces.insert(name.clone(), number);
        }
        Ok(found)
    }

    pub(crate) fn find_workflow(&mut self, name: &Name) -> Result<Option<WorkflowRowId>, Fault> {
        if let Some(number) = self.interned_names.workflows.get(name) {
            return Ok(Some(*number));
        }
        let mut find = self.prepare(include_str!("../sql/find_workflow.sql"))?;
        let found = find.query_row([name.as_str()], |row| row.get(0)).optional()?.map(WorkflowRowId);
        if let Some(number) = found {
            self.interned_names.workflows.insert(name.clone(), number);
        }
        Ok(found)
    }

    /// The number of a workspace, new if need be.
    pub(crate) fn number_workspace(&mut self, name: &WorkspaceId) -> Result<WorkspaceRowId, Fault> {
        if let Some(number) = self.find_workspace(name)? {
            return Ok(number);
        }
        let mut insert = self.prepare(include_str!("../sql/insert_workspace.sql"))?;
        let number = WorkspaceRowId(insert.query_row([name.as_str()], |row| row.get(0))?);
        self.interned_names.workspaces.insert(name.clone(), number);
        Ok(number)
    }

    /// The number of a workflow name, new if need be.
    pub(crate) fn number_workflow(&mut self, name: &Name) -> Result<WorkflowRowId, Fault> {
        if let Some(number) = self.find_workflow(name)? {
            return Ok(number);
        }
        let mut insert = self.prepare(include_str!("../sql/insert_workflow.sql"))?;
        let number = WorkflowRowId(insert.query_row([name.as_str()], |row| row.get(0))?);
        self.interned_names.workflows.insert(name.clone(), number);
        Ok(number)
    }

    pub(crate) fn find_head(&self, workspace: WorkspaceRowId, run: RunId) -> Result<Option<RunHead>, Fault> {
        find::head(self.statements, workspace, run)
    }

    pub(crate) fn insert_event(
        &self,
        workspace: WorkspaceRowId,
        run: RunId,
        event: &RunEvent,
    ) -> Result<(), Fault> {
        self.prepare(include_str!("../sql/insert_event.sql"))?.execute(params![
            workspace.0,
            rows::bytes(run),
            count(event.version.get()),
            millis(event.at),
            count(event.fence.get()),
            event.kind.code(),
            event.note,
        ])?;
        Ok(())
    }

    /// Writes a run that is and stays open, and whose generation and asked-for stay: a grant, or a quarantine.
    pub(crate) fn write_open_head(&self, workspace: WorkspaceRowId, head: &RunHead) -> Result<(), Fault> {
        let changed = self.prepare(include_str!("../sql/write_open_head.sql"))?.execute(params![
            workspace.0,
            rows::bytes(head.id()),
            count(head.version.get()),
            millis(head.changed_at),
            head.stalls,
            count(head.fence.get()),
            head.status().code(),
            millis_of(head.state.wake_at()),
            head.state.lease().map(|lease| lease.owner.as_u128().to_be_bytes()),
            count(head.arrivals),
            millis_of(head.started_at),
        ])?;
        one_row(changed, head.id())
    }

    /// Writes all of a run that can change.
    pub(crate) fn write_head(&self, workspace: WorkspaceRowId, head: &RunHead) -> Result<(), Fault> {
        let changed = self.prepare(include_str!("../sql/write_head.sql"))?.execute(params![
            workspace.0,
            rows::bytes(head.id()),
            count(head.version.get()),
            millis(head.changed_at),
            head.stalls,
            count(head.fence.get()),
            head.status().code(),
            millis_of(head.state.wake_at()),
            head.state.lease().map(|lease| lease.owner.as_u128().to_be_bytes()),
            count(head.arrivals),
            millis_of(head.started_at),
            head.generation.get(),
            head.asked.code(),
            millis_of(rows::closed_at(&head.state)),
        ])?;
        one_row(changed, head.id())
    }
}

/// A row that was read in the same transaction must be there to be written.
fn one_row(changed: usize, run: RunId) -> Result<(), Fault> {
    match changed {
        1 => Ok(()),
        n => Err(Fault::Broken(format!("writing {run} changed {n} rows"))),
    }
}
