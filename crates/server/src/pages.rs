//! Paged lists.

use hapax_api::Code;

use crate::answer::Refused;
use crate::cursor::{CursorScope, Cursors};

/// One list, for one caller and one filter.
pub(crate) struct List<'a> {
    pub(crate) cursors: &'a Cursors,
    pub(crate) workspace: &'a str,
    pub(crate) route: &'a str,
    pub(crate) filter: &'a str,
}

impl List<'_> {
    /// The position in a cursor of exactly this list, if one was given.
    pub(crate) fn open(&self, cursor: Option<&str>) -> Result<Option<String>, Refused> {
        cursor.map(|cursor| self.cursors.open(&self.scope(&[("filter", self.filter)]), cursor)).transpose()
    }

    /// The position in a cursor, parsed.
    pub(crate) fn place<T, E>(
        &self,
        cursor: Option<&str>,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Refused> {
        let begin_again = |_| Refused::new(Code::InvalidCursor, "Begin again without `cursor`.");
        self.open(cursor)?.map(|place| read(&place).map_err(begin_again)).transpose()
    }

    /// The cursor after the last item of `found`, if the page is full.
    pub(crate) fn next<T>(
        &self,
        found: &[T],
        limit: usize,
        place: impl FnOnce(&T) -> String,
    ) -> Option<String> {
        found.last().filter(|_| found.len() == limit).map(|last| self.seal(&place(last)))
    }

    /// The cursor after `place`.
    pub(crate) fn seal(&self, place: &str) -> String {
        self.cursors.seal(&self.scope(&[("filter", self.filter)]), &place).expect("a text is JSON")
    }

    fn scope<'a>(&'a self, filters: &'a [(&'a str, &'a str)]) -> CursorScope<'a> {
        CursorScope { workspace: self.workspace, route: self.route, filters }
    }
}
