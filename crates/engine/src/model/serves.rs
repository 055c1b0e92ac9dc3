//! Which workflows an engine has the code of, and for which workspaces.

use std::collections::{BTreeMap, BTreeSet};

use super::{WorkflowRef, WorkspaceId};

/// The workflows that an engine can drive, each with the workspaces it can drive it for.
///
/// Two workspaces may have workflows of one name and version that have nothing to do with each other, so a name alone says nothing about
/// whether a run can be driven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Serves(BTreeMap<WorkflowRef, ServedFor>);

/// The workspaces that a workflow is served for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedFor {
    /// All of them.
    Everybody,
    /// These.
    Only(BTreeSet<WorkspaceId>),
}

impl ServedFor {
    /// The workspaces that are named one by one.
    pub fn listed(&self) -> impl Iterator<Item = &WorkspaceId> {
        let named = match self {
            ServedFor::Everybody => None,
            ServedFor::Only(workspaces) => Some(workspaces),
        };
        named.into_iter().flatten()
    }

    /// Is the workflow served for this workspace?
    pub fn covers(&self, workspace: &WorkspaceId) -> bool {
        match self {
            ServedFor::Everybody => true,
            ServedFor::Only(workspaces) => workspaces.contains(workspace),
        }
    }
}

impl Serves {
    /// Adds a workflow, for one workspace or for all.
    pub fn insert(&mut self, workspace: Option<&WorkspaceId>, workflow: WorkflowRef) {
        let served = self.0.entry(workflow).or_insert_with(|| ServedFor::Only(BTreeSet::new()));
        match (workspace, served) {
            (None, served) => *served = ServedFor::Everybody,
            (Some(workspace), ServedFor::Only(workspaces)) => drop(workspaces.insert(workspace.clone())),
            (Some(_), ServedFor::Everybody) => {}
        }
    }

    /// Can a run of this workflow in this workspace be driven?
    pub fn covers(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> bool {
        self.0.get(workflow).is_some_and(|served| served.covers(workspace))
    }

    /// Every workflow, with the workspaces it is served for.
    pub fn iter(&self) -> impl Iterator<Item = (&WorkflowRef, &ServedFor)> {
        self.0.iter()
    }

    /// Nothing at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Workflows that are served for all workspaces.
impl FromIterator<WorkflowRef> for Serves {
    fn from_iter<I: IntoIterator<Item = WorkflowRef>>(workflows: I) -> Self {
        Serves(workflows.into_iter().map(|workflow| (workflow, ServedFor::Everybody)).collect())
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
        let mut serves = Serves::default();
        serves.insert(Some(&workspace("acme")), order.clone());
        assert!(serves.covers(&workspace("acme"), &order));
        assert!(!serves.covers(&workspace("beta"), &order));
        assert!(!serves.covers(&workspace("acme"), &WorkflowRef { version: 2, ..order.clone() }));
        serves.insert(None, order.clone());
        assert!(serves.covers(&workspace("beta"), &order), "one for all workspaces goes for each");
        serves.insert(Some(&workspace("gamma")), order.clone());
        assert!(serves.covers(&workspace("beta"), &order), "and is not narrowed by one more");
    }
}
