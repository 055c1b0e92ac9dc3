//! Interned names: the small numbers in rows. A number never changes, so each is read once.

use std::collections::{BTreeSet, HashMap};
use std::sync::RwLock;

use hapax_engine::model::{Name, WorkspaceId};

use crate::fault::Fault;
use crate::link::Link;
use crate::rows::broken;
use crate::session::params;

/// Number of a workspace in this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkspaceRowId(pub(crate) i32);

/// Number of a workflow name in this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkflowRowId(pub(crate) i32);

/// Known numbers. They are assigned in transactions of their own, so no rollback ever removes one.
#[derive(Debug, Default)]
pub(crate) struct InternedNames {
    workspaces: RwLock<HashMap<WorkspaceId, WorkspaceRowId>>,
    workflows: RwLock<HashMap<Name, WorkflowRowId>>,
}

impl InternedNames {
    /// The number of a workspace, if it has one.
    pub(crate) async fn find_workspace(
        &self,
        client: Link<'_>,
        name: &WorkspaceId,
    ) -> Result<Option<WorkspaceRowId>, Fault> {
        if let Some(number) = self.known_workspace(name) {
            return Ok(Some(number));
        }
        let found = find(client, include_str!("../sql/find_workspace.sql"), name.as_str()).await?;
        if let Some(number) = found {
            self.workspaces.write().expect("no holder panics").insert(name.clone(), WorkspaceRowId(number));
        }
        Ok(found.map(WorkspaceRowId))
    }

    /// The number of a workflow name, if it has one.
    pub(crate) async fn find_workflow(
        &self,
        client: Link<'_>,
        name: &Name,
    ) -> Result<Option<WorkflowRowId>, Fault> {
        if let Some(number) = self.known_workflow(name) {
            return Ok(Some(number));
        }
        let found = find(client, include_str!("../sql/find_workflow.sql"), name.as_str()).await?;
        if let Some(number) = found {
            self.workflows.write().expect("no holder panics").insert(name.clone(), WorkflowRowId(number));
        }
        Ok(found.map(WorkflowRowId))
    }

    /// Looks up all unknown names at once: a node may serve many workflows without runs, and none
    /// of them has a number.
    pub(crate) async fn learn(
        &self,
        client: Link<'_>,
        workflows: impl Iterator<Item = &Name>,
        workspaces: impl Iterator<Item = &WorkspaceId>,
    ) -> Result<(), Fault> {
        let unknown: BTreeSet<&str> =
            workflows.filter(|name| self.known_workflow(name).is_none()).map(|name| name.as_str()).collect();
        for (name, number) in find_all(client, include_str!("../sql/find_workflows.sql"), unknown).await? {
            let name = Name::new("workflow", &name).map_err(broken)?;
            self.workflows.write().expect("no holder panics").insert(name, WorkflowRowId(number));
        }
        let unknown: BTreeSet<&str> = workspaces
            .filter(|name| self.known_workspace(name).is_none())
            .map(|name| name.as_str())
            .collect();
        for (name, number) in find_all(client, include_str!("../sql/find_workspaces.sql"), unknown).await? {
            let name = WorkspaceId::new(&name).map_err(broken)?;
            self.workspaces.write().expect("no holder panics").insert(name, WorkspaceRowId(number));
        }
        Ok(())
    }

    /// The number of a workspace, assigned if needed. Must not be called inside a transaction.
    pub(crate) async fn give_workspace(
        &self,
        client: Link<'_>,
        name: &WorkspaceId,
    ) -> Result<WorkspaceRowId, Fault> {
        if let Some(number) = self.find_workspace(client, name).await? {
            return Ok(number);
        }
        insert(client, include_str!("../sql/insert_workspace.sql"), name.as_str()).await?;
        let number = self.find_workspace(client, name).await?;
        number.ok_or_else(|| Fault::Broken(format!("workspace {name} was inserted and is not there")))
    }

    /// The number of a workflow name, assigned if needed. Must not be called inside a transaction.
    pub(crate) async fn give_workflow(&self, client: Link<'_>, name: &Name) -> Result<WorkflowRowId, Fault> {
        if let Some(number) = self.find_workflow(client, name).await? {
            return Ok(number);
        }
        insert(client, include_str!("../sql/insert_workflow.sql"), name.as_str()).await?;
        let number = self.find_workflow(client, name).await?;
        number.ok_or_else(|| Fault::Broken(format!("workflow {name} was inserted and is not there")))
    }

    pub(crate) fn known_workspace(&self, name: &WorkspaceId) -> Option<WorkspaceRowId> {
        self.workspaces.read().expect("no holder panics").get(name).copied()
    }

    pub(crate) fn known_workflow(&self, name: &Name) -> Option<WorkflowRowId> {
        self.workflows.read().expect("no holder panics").get(name).copied()
    }
}

async fn find(client: Link<'_>, sql: &'static str, name: &str) -> Result<Option<i32>, Fault> {
    let statement = client.prepare(sql).await?;
    let rows = client.query(&statement, &[&name]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

async fn find_all(
    client: Link<'_>,
    sql: &'static str,
    names: BTreeSet<&str>,
) -> Result<Vec<(String, i32)>, Fault> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let statement = client.prepare(sql).await?;
    let names: Vec<&str> = names.into_iter().collect();
    let rows = client.query(&statement, &[&(names.len() as i64), &names]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn insert(client: Link<'_>, sql: &'static str, name: &str) -> Result<(), Fault> {
    let statement = client.prepare(sql).await?;
    client.execute(&statement, params![name.to_owned()]).await?;
    Ok(())
}
