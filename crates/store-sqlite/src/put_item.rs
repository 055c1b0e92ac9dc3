//! Writing what is set up.

use hapax_engine::store::{PutCatalogItem, PutOutcome};
use rusqlite::params;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::items::{find_item, find_named_item};
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::session::Session;

impl Verb for PutCatalogItem {
    type Outcome = PutOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<PutOutcome, Fault> {
        let found = find_item(session.statements(), self.kind, &self.id)?;
        let namesake = match session.find_workspace(&self.workspace)? {
            Some(workspace) => find_named_item(session.statements(), workspace, self.kind, &self.name)?,
            None => None,
        };
        let outcome = self.decide(found, namesake, session.now);
        if let PutOutcome::Put(item) = &outcome {
            let workspace = session.number_workspace(&item.workspace)?;
            session.prepare(include_str!("../sql/put_item.sql"))?.execute(params![
                item.kind.code(),
                item.id.as_str(),
                workspace.0,
                item.name,
                count(item.version.get()),
                item.body.as_str(),
                millis(item.created_at),
                millis(item.changed_at),
            ])?;
            insert_notes(session, self.note.as_slice())?;
        }
        Ok(outcome)
    }
}
