//! Appending to the journal by itself.

use hapax_engine::model::JournalEntry;

use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::session::Session;

/// Entries that belong to no other write.
pub(crate) struct AppendJournal(pub(crate) Vec<JournalEntry>);

impl Verb for AppendJournal {
    type Outcome = ();

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.extend(self.0.iter().map(|note| note.workspace.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        insert_notes(session, &self.0).await
    }
}
