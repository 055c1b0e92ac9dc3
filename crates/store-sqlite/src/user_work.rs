//! User code on the writer's connection, and what it may not do there.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hapax_engine::model::{Failure, Payload};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use serde::Serialize;

type Work = dyn Fn(&Connection) -> Result<Payload, Failure> + Send + Sync;

/// Work in the store's own transaction: what [`hapax_engine::store::Transact::work`] is for this store.
///
/// It runs on the one connection that writes, so everybody's writes wait for it: keep it short, and do nothing in it but
/// SQL. It may make and use tables of its own, and read ours; it may not write ours, nor end the transaction. It may be
/// called more than once, but takes effect once.
pub struct SqliteWork(Box<Work>);

impl SqliteWork {
    /// Work that gives a value, or fails and leaves nothing behind.
    pub fn new<T: Serialize>(
        work: impl Fn(&Connection) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> Self {
        SqliteWork(Box::new(move |connection| {
            let output = work(connection)?;
            Payload::of(&output).map_err(|error| Failure::permanent(error).with_code("output_refused"))
        }))
    }

    /// Runs the work. A panic is a failure like any other: its writes are rolled back.
    pub(crate) fn run(&self, connection: &Connection) -> Result<Payload, Failure> {
        let _until_done = InUserWork::enter();
        catch_unwind(AssertUnwindSafe(|| (self.0)(connection)))
            .unwrap_or_else(|_| Err(Failure::retryable("the work panicked; nothing of it was written")))
    }
}

impl fmt::Debug for SqliteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteWork")
    }
}

thread_local! {
    /// Does this thread run user code on a connection?
    static IN_USER_WORK: Cell<bool> = const { Cell::new(false) };
}

struct InUserWork;

impl InUserWork {
    fn enter() -> Self {
        IN_USER_WORK.set(true);
        InUserWork
    }
}

impl Drop for InUserWork {
    fn drop(&mut self) {
        IN_USER_WORK.set(false);
    }
}

/// Asked by SQLite about each statement when it is compiled; ours are free to do anything.
pub(crate) fn authorize(context: AuthContext<'_>) -> Authorization {
    match !IN_USER_WORK.get() || is_allowed(context.action) {
        true => Authorization::Allow,
        false => Authorization::Deny,
    }
}

fn is_allowed(action: AuthAction<'_>) -> bool {
    let is_ours = |name: &str| name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("hapax_"));
    match action {
        // The transaction is not the user's to end, nor are the settings of the connection the user's to change.
        AuthAction::Transaction { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. } => false,
        AuthAction::Savepoint { savepoint_name, .. } => !is_ours(savepoint_name),
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateTable { table_name }
        | AuthAction::CreateView { view_name: table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::DropView { view_name: table_name }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. } => !is_ours(table_name),
        _ => true,
    }
}
