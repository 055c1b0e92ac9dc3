//! Recording the result of a delivery.

use std::sync::Arc;

use hapax_engine::store::FinishOutboxMessage;

use crate::codes::Code;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::outbox::state_columns;
use crate::pools::HeldConnection;
use crate::rows::{failure_text, owner_uuid};

/// Returns true if the caller still held it.
pub(crate) async fn finish_outbox_message(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: FinishOutboxMessage,
) -> Result<bool, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(false);
    };
    let (at, holder) = state_columns(request.state);
    let failure = request.failure.as_ref().map(failure_text).transpose()?;
    let statement = held.prepare_cached(include_str!("../sql/finish_post.sql")).await?;
    let finished = held
        .execute(
            &statement,
            &[
                &workspace.0,
                &request.id.as_str(),
                &owner_uuid(request.owner),
                &request.attempt.cast_signed(),
                &request.state.status().code(),
                &at,
                &holder,
                &failure,
            ],
        )
        .await?;
    Ok(finished == 1)
}
