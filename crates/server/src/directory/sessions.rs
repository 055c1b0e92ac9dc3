//! Sessions of the console, one entry for each credential, which bounds them and needs no clearing up.

use hapax_api::Problem;
use hapax_engine::model::{Actor, CatalogKind, Name, Version};
use hapax_engine::store::{PutCatalogItem, PutOutcome};
use serde::{Deserialize, Serialize};

use super::{Directory, body_of, said};
use crate::console::KeptSession;
use crate::errors::problem_of_store;
use crate::identity::Identity;

/// Sessions of one credential, as they were read.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionBook {
    pub(crate) sessions: Vec<KeptSession>,
    /// Version that was read; absent if there is no entry.
    #[serde(skip)]
    version: Option<Version>,
}

fn entry_of(credential: &Name) -> Name {
    Name::new("setting", &format!("console-sessions-{credential}"))
        .expect("a credential id is a short plain word")
}

impl Directory {
    /// Sessions of a credential, or of a person.
    pub(crate) async fn read_sessions(&self, credential: &Name) -> Result<SessionBook, Problem> {
        let id = entry_of(credential);
        let found = self
            .catalog()
            .find_item(CatalogKind::Setting, &id)
            .await
            .map_err(|error| problem_of_store(&error))?;
        match found {
            Some(item) => Ok(SessionBook { version: Some(item.version), ..said(&item)? }),
            None => Ok(SessionBook::default()),
        }
    }

    /// Writes them if nobody else did since they were read; `false` otherwise.
    pub(crate) async fn write_sessions(
        &self,
        identity: &Identity,
        book: &SessionBook,
        note: Option<(Actor, &str)>,
    ) -> Result<bool, Problem> {
        let (id, workspace) = (entry_of(&identity.credential), identity.workspace.clone());
        let note = note.map(|(by, what)| {
            self.set_up(&workspace, by, CatalogKind::Credential, &identity.credential, what)
        });
        let name = id.to_string();
        let request = PutCatalogItem {
            workspace,
            kind: CatalogKind::Setting,
            id,
            name,
            body: body_of(book)?,
            expected: book.version,
            note,
        };
        Ok(matches!(self.put(request).await?, PutOutcome::Put(_)))
    }
}
