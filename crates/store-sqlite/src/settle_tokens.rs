//! Tokens that settle a promise without a credential.

use hapax_engine::model::PromiseId;
use hapax_engine::store::{PutSettleToken, SettleToken, TokenDigest};
use rusqlite::{Connection, params};

use crate::codes::millis;
use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::rows;
use crate::session::Session;

impl Verb for PutSettleToken {
    type Outcome = bool;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<bool, Fault> {
        let PutSettleToken { token, note } = self;
        let Some(workspace) = session.find_workspace(&token.workspace)? else { return Ok(false) };
        if find::promise(session.statements(), workspace, &token.promise)?.is_none() {
            return Ok(false);
        }
        session.prepare(include_str!("../sql/put_settle_token.sql"))?.execute(params![
            token.digest,
            workspace.0,
            token.promise.as_str(),
            millis(token.expires_at),
        ])?;
        insert_notes(session, note.as_slice())?;
        Ok(true)
    }
}

pub(crate) fn find_settle_token(
    connection: &Connection,
    digest: TokenDigest,
) -> Result<Option<SettleToken>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_settle_token.sql"))?;
    rows::at_most_one(find.query(params![digest])?, |mut row| {
        Ok(SettleToken {
            digest,
            workspace: rows::workspace_name(&mut row)?,
            promise: PromiseId::from_stored(row.text()?),
            expires_at: row.at()?,
        })
    })
}
