//! Appending to the journal by itself.

use hapax_engine::model::JournalEntry;

use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::session::Session;

/// Entries that belong to no other write.
pub(crate) struct AppendJournal(pub(crate) Vec<JournalEntry>);

impl Verb for AppendJournal {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        insert_notes(session, &self.0)
    }
}
