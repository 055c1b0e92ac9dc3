//! Writing catalog items.

use hapax_engine::model::{CatalogItem, CatalogKind, Version};
use hapax_engine::store::{PutCatalogItem, PutOutcome};

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::items::item;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::rows;
use crate::session::{Session, params};

impl Verb for PutCatalogItem {
    type Outcome = PutOutcome;

    fn foresee(&self, needs: &mut Needs) {
        if self.expected.is_none() {
            needs.workspaces.push(self.workspace.clone());
        }
        needs.workspaces.extend(self.note.iter().map(|note| note.workspace.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<PutOutcome, Fault> {
        if self.kind == CatalogKind::EntityWorkflow {
            let item = params![self.id.as_str().to_owned()];
            let _ = session.query(include_str!("../sql/lock_document.sql"), item).await?;
        }
        let place = params![self.kind.code(), self.id.as_str().to_owned()];
        let found = session.query(include_str!("../sql/lock_item.sql"), place).await?;
        let found = rows::at_most_one(&found, item)?;
        let namesake = match session.find_workspace(&self.workspace).await? {
            Some(workspace) => find_namesake(session, workspace, self).await?,
            None => None,
        };
        let outcome = self.decide(found, namesake, session.now);
        if let PutOutcome::Put(item) = &outcome {
            write_item(session, item).await?;
            insert_notes(session, self.note.as_slice()).await?;
        }
        Ok(outcome)
    }
}

async fn find_namesake(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    request: &PutCatalogItem,
) -> Result<Option<CatalogItem>, Fault> {
    let named = params![workspace.0, request.kind.code(), request.name.clone()];
    let found = session.query(include_str!("../sql/find_named_item.sql"), named).await?;
    rows::at_most_one(&found, item)
}

/// If another transaction takes the id or name in the meantime, a unique key fails, and the
/// operation is retried.
async fn write_item(session: &mut Session<'_>, item: &CatalogItem) -> Result<(), Fault> {
    let (kind, id, name) = (item.kind.code(), item.id.as_str().to_owned(), item.name.clone());
    let (version, body) = (count(item.version.get()), item.body.as_str().to_owned());
    let (created_at, changed_at) = (millis(item.created_at), millis(item.changed_at));
    match item.version == Version::new(1) {
        true => {
            let workspace = session.get_workspace(&item.workspace).await?;
            session.keep_back(
                include_str!("../sql/insert_item.sql"),
                params![kind, id, workspace.0, name, version, body, created_at, changed_at],
            );
        }
        false => {
            let written = params![kind, id, name, version, body, changed_at];
            session.keep_back(include_str!("../sql/write_item.sql"), written);
        }
    }
    Ok(())
}
