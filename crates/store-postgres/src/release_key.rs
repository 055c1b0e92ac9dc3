//! Releasing keys early.

use hapax_engine::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, PromiseState, RequestScope, WorkspaceId,
};
use hapax_engine::store::ReleaseOutcome;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::promise_keys::{delete_early, find_key, write_key};
use crate::requests::delete_request;
use crate::rows::{self, uuid};
use crate::session::{Session, params};
use crate::start_run::run_key;

/// Releases the key of a run.
pub(crate) struct ReleaseRunKey {
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: IdempotencyKey,
    pub(crate) note: JournalEntry,
}

/// Releases the key of a request.
pub(crate) struct ReleaseRequestKey {
    pub(crate) scope: RequestScope,
    pub(crate) key: IdempotencyKey,
    pub(crate) note: JournalEntry,
}

impl Verb for ReleaseRunKey {
    type Outcome = ReleaseOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.note.workspace.clone());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<ReleaseOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(ReleaseOutcome::NoSuchKey);
        };
        let place = params![workspace.0, KeyKind::Run.code(), self.key.as_str().to_owned()];
        let found = session.query(include_str!("../sql/find_key.sql"), place).await?;
        let found = rows::at_most_one(&found, |mut row| rows::key_record(&mut row))?;
        let Some(record) = found.map(run_key).transpose()?.filter(|record| record.is_live(session.now))
        else {
            return Ok(ReleaseOutcome::NoSuchKey);
        };
        // Locked: an ended run stays ended, and its key names it, until this is committed.
        let holder = session.find_head(workspace, record.run).await?;
        if holder.is_some_and(|stored| !stored.head.status().is_closed()) {
            return Ok(ReleaseOutcome::InUse { run: Some(record.run) });
        }
        let (kind, key) = (KeyKind::Run.code(), self.key.as_str().to_owned());
        let expired = params![workspace.0, kind, key, uuid(record.run), millis(session.now)];
        session.keep_back(include_str!("../sql/expire_key.sql"), expired);
        insert_notes(session, std::slice::from_ref(&self.note)).await?;
        Ok(ReleaseOutcome::Released)
    }
}

/// Releases the key of a promise, or a key that is claimed for a promise.
pub(crate) struct ReleasePromiseKey {
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: IdempotencyKey,
    pub(crate) note: JournalEntry,
}

impl Verb for ReleasePromiseKey {
    type Outcome = ReleaseOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.note.workspace.clone());
        needs.promise_keys.push((self.workspace.clone(), self.key.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<ReleaseOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(ReleaseOutcome::NoSuchKey);
        };
        let known = find_key(session, workspace, &self.key).await?;
        let Some(record) = known.record.filter(|record| record.is_live(session.now)) else {
            return Ok(ReleaseOutcome::NoSuchKey);
        };
        let promise = match record.promise() {
            Some(id) => session.find_promise(workspace, id).await?,
            None => None,
        };
        let pending = promise.filter(|promise| promise.state_at(session.now) == PromiseState::Pending);
        if let Some(promise) = pending {
            let run = (!promise.is_standalone()).then_some(promise.run);
            let holder = match run {
                Some(run) => session.find_head(workspace, run).await?,
                None => return Ok(ReleaseOutcome::InUse { run }),
            };
            if holder.is_some_and(|stored| !stored.head.status().is_closed()) {
                return Ok(ReleaseOutcome::InUse { run });
            }
        }
        delete_early(session, workspace, &self.key);
        let expired = KeyRecord { expires_at: Some(session.now), ..record };
        write_key(session, workspace, &self.key, expired);
        insert_notes(session, std::slice::from_ref(&self.note)).await?;
        Ok(ReleaseOutcome::Released)
    }
}

impl Verb for ReleaseRequestKey {
    type Outcome = ReleaseOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.note.workspace.clone());
        needs.requests.push((self.scope.clone(), self.key.clone()));
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<ReleaseOutcome, Fault> {
        let place = (self.scope.clone(), self.key.clone());
        match session.requests.get(&place).and_then(Option::as_ref) {
            None => Ok(ReleaseOutcome::NoSuchKey),
            Some(found) if found.is_free(session.now) => Ok(ReleaseOutcome::NoSuchKey),
            Some(found) if found.is_held(session.now) => Ok(ReleaseOutcome::InUse { run: None }),
            Some(_) => {
                delete_request(session, place).await?;
                insert_notes(session, std::slice::from_ref(&self.note)).await?;
                Ok(ReleaseOutcome::Released)
            }
        }
    }
}
