//! How to open a file.

use std::sync::Arc;

use hapax_engine::clock::{Clock, SystemClock};

/// How to open a file; the default suits one process that owns it.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shared: bool,
    pub(crate) read_only: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { clock: Arc::new(SystemClock::new()), shared: false, read_only: false }
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

    /// Only look: works while another process owns the file, and every write is refused.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}
