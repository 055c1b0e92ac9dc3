//! Appending to the journal by itself.

use hapax_engine::model::Note;

use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::session::Session;

/// Entries that belong to no other write.
pub(crate) struct AppendNotes(pub(crate) Vec<Note>);

impl Verb for AppendNotes {
    type Outcome = ();

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<(), Fault> {
        insert_notes(session, &self.0)
    }
}
