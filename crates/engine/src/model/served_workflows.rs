//! The workflows whose code an engine has, and the workspaces they are served for.

use std::collections::{BTreeMap, BTreeSet};

use super::{WorkflowRef, WorkspaceId};

/// The workflows that an engine can drive, each with the workspaces it serves.
///
/// Two workspaces may have unrelated workflows with the same name and version. So a name alone does not tell
/// whether a run can be driven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedWorkflows(BTreeMap<WorkflowRef, ServedWorkspaces>);

/// The workspaces that a workflow is served for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedWorkspaces {
    /// Every workspace.
    All,
    /// Only these.
    Only(BTreeSet<WorkspaceId>),
}

impl ServedWorkspaces {
    /// The workspaces that are listed one by one.
    pub fn listed(&self) -> impl Iterator<Item = &WorkspaceId> {
        let named = match self {
            ServedWorkspaces::All => None,
            ServedWorkspaces::Only(workspaces) => Some(workspaces),
        };
        named.into_iter().flatten()
    }

    /// Returns true if the workflow is served for this workspace.
    pub fn covers(&self, workspace: &WorkspaceId) -> bool {
        match self {
            ServedWorkspaces::All => true,
            ServedWorkspaces::Only(workspaces) => workspaces.contains(workspace),
        }
    }
}

impl ServedWorkflows {
    /// Adds a workflow for one workspace, or for all.
    pub fn insert(&mut self, workspace: Option<&WorkspaceId>, workflow: WorkflowRef) {
        let served = self.0.entry(workflow).or_insert_with(|| ServedWorkspaces::Only(BTreeSet::new()));
        match (workspace, served) {
            (None, served) => *served = ServedWorkspaces::All,
            (Some(workspace), ServedWorkspaces::Only(workspaces)) => {
                workspaces.insert(workspace.clone());
            }
            (Some(_), ServedWorkspaces::All) => {}
        }
    }

    /// Removes a workflow for one workspace. One that is served for all stays.
    pub fn remove(&mut self, workspace: &WorkspaceId, workflow: &WorkflowRef) {
        let Some(ServedWorkspaces::Only(workspaces)) = self.0.get_mut(workflow) else { return };
        workspaces.remove(workspace);
        if workspaces.is_empty() {
            self.0.remove(workflow);
        }
    }

    /// Returns true if a run of this workflow in this workspace can be driven.
    pub fn covers(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> bool {
        self.0.get(workflow).is_some_and(|served| served.covers(workspace))
    }

    /// Every workflow, with the workspaces it is served for.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkflowRef, &ServedWorkspaces)> {
        self.0.iter()
    }

    /// Returns true if no workflow is served.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects workflows that are served for all workspaces.
impl FromIterator<WorkflowRef> for ServedWorkflows {
    fn from_iter<I: IntoIterator<Item = WorkflowRef>>(workflows: I) -> Self {
        ServedWorkflows(workflows.into_iter().map(|workflow| (workflow, ServedWorkspaces::All)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Name;

    #[test]
    fn a_workflow_of_one_workspace_says_nothing_about_another() {
        let workspace = |name| WorkspaceId::new(name).unwrap();
        let order = WorkflowRef { name: Name::new("workflow", "order").unwrap(), version: 1 };
        let mut serves = ServedWorkflows::default();
        serves.insert(Some(&workspace("acme")), order.clone());
        assert!(serves.covers(&workspace("acme"), &order));
        assert!(!serves.covers(&workspace("beta"), &order));
        assert!(!serves.covers(&workspace("acme"), &WorkflowRef { version: 2, ..order.clone() }));
        serves.insert(None, order.clone());
        assert!(serves.covers(&workspace("beta"), &order), "one for all workspaces goes for each");
        serves.insert(Some(&workspace("gamma")), order.clone());
        assert!(serves.covers(&workspace("beta"), &order), "and is not narrowed by one more");
        serves.remove(&workspace("gamma"), &order);
        assert!(serves.covers(&workspace("gamma"), &order), "nor by one less");
    }

    #[test]
    fn a_workflow_that_is_served_for_no_workspace_is_not_served() {
        let workspace = |name| WorkspaceId::new(name).unwrap();
        let order = WorkflowRef { name: Name::new("workflow", "order").unwrap(), version: 1 };
        let mut serves = ServedWorkflows::default();
        for name in ["acme", "beta"] {
            serves.insert(Some(&workspace(name)), order.clone());
        }
        serves.remove(&workspace("acme"), &order);
        assert!(!serves.covers(&workspace("acme"), &order) && serves.covers(&workspace("beta"), &order));
        serves.remove(&workspace("beta"), &order);
        assert!(serves.is_empty());
    }
}
