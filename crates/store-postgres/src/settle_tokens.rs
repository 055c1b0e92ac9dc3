//! Tokens that settle one promise without a credential.

use std::sync::Arc;

use hapax_engine::model::PromiseId;
use hapax_engine::store::{PutSettleToken, SettleToken, TokenDigest};

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;
use crate::session::{Session, params};

/// Issues a token; returns whether the promise exists. The promise is locked, so that the token
/// cannot outlive it.
impl Verb for PutSettleToken {
    type Outcome = bool;

    fn foresee(&self, needs: &mut Needs) {
        needs.promises.push((self.token.workspace.clone(), self.token.promise.clone()));
        needs.bring(&self.token.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<bool, Fault> {
        let PutSettleToken { token, note } = self;
        let Some(workspace) = session.find_workspace(&token.workspace).await? else { return Ok(false) };
        if session.find_promise(workspace, &token.promise).await?.is_none() {
            return Ok(false);
        }
        let kept = params![
            token.digest.to_vec(),
            workspace.0,
            token.promise.as_str().to_owned(),
            millis(token.expires_at),
        ];
        session.keep_back(include_str!("../sql/put_settle_token.sql"), kept);
        insert_notes(session, note.as_slice()).await?;
        Ok(true)
    }
}

pub(crate) async fn find_settle_token(
    held: Arc<HeldConnection>,
    digest: TokenDigest,
) -> Result<Option<SettleToken>, Fault> {
    let found = query(&held, include_str!("../sql/find_settle_token.sql"), &[&&digest[..]]).await?;
    rows::at_most_one(&found, |mut row| {
        Ok(SettleToken {
            digest,
            workspace: rows::workspace_name(&mut row)?,
            promise: PromiseId::from_stored(row.text()?),
            expires_at: row.at()?,
        })
    })
}
