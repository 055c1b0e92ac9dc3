//! Taking in a webhook, once.

use hapax_engine::model::{Hook, HookStatus};
use hapax_engine::store::{NewHook, ReceivedHook};
use rusqlite::params;

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::hooks::find_hook_in;
use crate::job::Verb;
use crate::session::Session;

impl Verb for NewHook {
    type Outcome = ReceivedHook;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ReceivedHook, Fault> {
        let workspace = session.number_workspace(&self.id.workspace)?;
        if let Some(mut known) = find_hook_in(session.connection(), workspace, &self.id)? {
            let mut add = session.prepare(include_str!("../sql/count_duplicate_hook.sql"))?;
            add.execute([count(known.place)])?;
            known.duplicates += 1;
            return Ok(ReceivedHook::Again(known));
        }
        let now = session.now;
        let place = session.prepare(include_str!("../sql/insert_hook.sql"))?.insert(params![
            workspace.0,
            self.id.source.as_str(),
            self.id.event,
            millis(now),
            self.headers.as_str(),
            self.body,
        ])?;
        Ok(ReceivedHook::New(Hook {
            place: place.unsigned_abs(),
            id: self.id.clone(),
            received_at: now,
            changed_at: now,
            duplicates: 0,
            attempts: 0,
            status: HookStatus::Received,
            outcome: None,
            headers: self.headers.clone(),
            body: self.body.clone(),
        }))
    }
}
