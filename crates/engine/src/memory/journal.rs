//! The journal, and the steps in doubt.

use super::state::State;
use crate::limits::MAX_PAGE;
use crate::model::{Note, StepState};
use crate::store::{DoubtPlace, ListDoubts, ListNotes, PlacedNote, StoredDoubt};

impl State {
    pub(super) fn list_notes(&self, request: &ListNotes) -> Vec<PlacedNote> {
        let fits = |note: &Note| {
            note.workspace == request.workspace
                && request.run.is_none_or(|run| run == note.run)
                && (!request.by_people || note.by.is_some())
        };
        let later = self.notes().range(request.after.saturating_add(1)..);
        let fitting = later.filter(|(_, note)| fits(note)).take(request.limit.clamp(1, MAX_PAGE));
        fitting.map(|(place, note)| PlacedNote { place: *place, note: note.clone() }).collect()
    }

    pub(super) fn list_doubts(&self, request: &ListDoubts) -> Vec<StoredDoubt> {
        let mut doubts: Vec<(DoubtPlace, StoredDoubt)> = Vec::new();
        for (run, row) in self.rows() {
            let workspace = &row.head.facts.workspace;
            if request.workspace.as_ref().is_some_and(|wanted| wanted != workspace) {
                continue;
            }
            for step in row.steps.values() {
                let StepState::InDoubt { since, .. } = step.state else { continue };
                let place = DoubtPlace { since, run: *run, step: step.id.clone() };
                doubts.push((
                    place,
                    StoredDoubt { workspace: workspace.clone(), run: *run, step: step.clone() },
                ));
            }
        }
        doubts.sort_by(|(a, _), (b, _)| a.cmp(b));
        let later =
            doubts.into_iter().filter(|(place, _)| request.after.as_ref().is_none_or(|after| place > after));
        later.map(|(_, doubt)| doubt).take(request.limit.clamp(1, MAX_PAGE)).collect()
    }
}
