//! Lists that are read page by page.

use crate::answer::Refused;
use crate::cursor::{CursorScope, Cursors};

/// One list, as one caller reads it with one filter.
pub(crate) struct List<'a> {
    pub(crate) cursors: &'a Cursors,
    pub(crate) workspace: &'a str,
    pub(crate) route: &'a str,
    pub(crate) filter: &'a str,
}

impl List<'_> {
    /// The place in a cursor that was given for this very list.
    pub(crate) fn open(&self, cursor: &str) -> Result<String, Refused> {
        self.cursors.open(&self.scope(&[("filter", self.filter)]), cursor)
    }

    /// The cursor that leads on from `place`.
    pub(crate) fn seal(&self, place: &str) -> String {
        self.cursors.seal(&self.scope(&[("filter", self.filter)]), &place).expect("a text is JSON")
    }

    fn scope<'a>(&'a self, filters: &'a [(&'a str, &'a str)]) -> CursorScope<'a> {
        CursorScope { workspace: self.workspace, route: self.route, filters }
    }
}
