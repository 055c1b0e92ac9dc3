//! How to open a file.

use std::sync::Arc;

use hapax_engine::clock::{Clock, SystemClock};

use crate::connect::Pages;

/// How to open a file; the default suits one process that owns it.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shared: bool,
    pub(crate) read_only: bool,
    mapped: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { clock: Arc::new(SystemClock::new()), shared: false, read_only: false, mapped: true }
    }
}

impl SqliteOptions {
    /// The clock that leases, timers and deadlines are judged by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Several processes of one machine may open the file. Each commit then waits for the others, and runs of a
    /// process that died resume only when their leases end.
    #[must_use]
    pub fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }

    /// Lookups read through a mapping of the file, which is quicker; this is the default. A disk that fails to read a mapped page ends the process
    /// with a signal: without a mapping it fails one read. A file that is shared or only looked at is never mapped.
    #[must_use]
    pub fn mapped(mut self, mapped: bool) -> Self {
        self.mapped = mapped;
        self
    }

    pub(crate) fn pages(&self) -> Pages {
        // No other process truncates a file that this one owns; a read-only opening may be
        // inspecting a failing disk.
        match self.mapped && !self.shared && !self.read_only {
            true => Pages::Mapped,
            false => Pages::Copied,
        }
    }

    /// Only look: works while another process owns the file, and every write is refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_owned_alone_is_mapped() {
        let usual = SqliteOptions::default;
        assert_eq!(usual().pages(), Pages::Mapped);
        for careful in [usual().mapped(false), usual().shared(true), usual().read_only(true)] {
            assert_eq!(careful.pages(), Pages::Copied, "{careful:?}");
        }
    }
}
