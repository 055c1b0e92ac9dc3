//! Workspaces.

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::model::{Actor, CatalogItem, CatalogKind, Name, WorkspaceId};
use hapax_engine::store::{ListCatalogItems, PutCatalogItem, PutOutcome};
use serde::{Deserialize, Serialize};

use super::{Directory, body_of, said};
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::identity::INSTALLATION;

/// Stored part of a workspace, without its name and its times.
#[derive(Debug, Default, Serialize, Deserialize)]
struct WorkspaceBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

impl Directory {
    /// Creates a workspace, or returns the existing one if it is the same.
    pub async fn create_workspace(
        &self,
        asked: &api::CreateWorkspace,
        by: Actor,
    ) -> Result<(api::Workspace, bool), Problem> {
        let id = WorkspaceId::new(&asked.name).map_err(|invalid| problem_of_invalid(&invalid))?;
        if id.as_str() == INSTALLATION {
            return Err(Problem::new(
                Code::NameTaken,
                format!("{INSTALLATION} is the workspace of the installation itself; choose another name."),
            ));
        }
        self.ensure_workspace(&id, asked.description.clone(), by).await
    }

    /// Creates a workspace with this id unless it exists; says if it was created.
    pub async fn ensure_workspace(
        &self,
        id: &WorkspaceId,
        description: Option<String>,
        by: Actor,
    ) -> Result<(api::Workspace, bool), Problem> {
        let name = Name::new("workspace", id.as_str()).map_err(|invalid| problem_of_invalid(&invalid))?;
        let request = PutCatalogItem {
            workspace: id.clone(),
            kind: CatalogKind::Workspace,
            id: name.clone(),
            name: name.to_string(),
            body: body_of(&WorkspaceBody { description: description.clone() })?,
            expected: None,
            note: Some(self.set_up(id, by, CatalogKind::Workspace, &name, "created")),
        };
        match self.put(request).await? {
            PutOutcome::Put(item) => Ok((shown(&item)?, true)),
            PutOutcome::Exists(item) if said::<WorkspaceBody>(&item)?.description == description => {
                Ok((shown(&item)?, false))
            }
            PutOutcome::Exists(_) | PutOutcome::NameTaken(_) => Err(Problem::new(
                Code::NameTaken,
                format!("A workspace {id} with different content already exists."),
            )),
            PutOutcome::Stale(_) | PutOutcome::Missing => unreachable!("nothing was expected to be there"),
        }
    }

    /// One workspace.
    pub async fn find_workspace(&self, id: &str) -> Result<Option<api::Workspace>, Problem> {
        let Ok(id) = Name::new("workspace", id) else { return Ok(None) };
        let found = self.catalog().find_item(CatalogKind::Workspace, &id).await;
        found.map_err(|error| problem_of_store(&error))?.as_ref().map(shown).transpose()
    }

    /// Workspaces after `after`, in the order of their names.
    pub async fn list_workspaces(
        &self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<api::Workspace>, Problem> {
        let request = ListCatalogItems {
            workspace: None,
            kind: CatalogKind::Workspace,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        items.iter().map(shown).collect()
    }
}

fn shown(item: &CatalogItem) -> Result<api::Workspace, Problem> {
    Ok(api::Workspace {
        id: item.id.to_string(),
        name: item.name.clone(),
        description: said::<WorkspaceBody>(item)?.description,
        created_at: item.created_at.to_string(),
    })
}
