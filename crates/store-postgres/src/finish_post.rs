//! How a delivery went.

use std::sync::Arc;

use hapax_engine::store::FinishPost;

use crate::codes::Code;
use crate::fault::Fault;
use crate::numbers::Numbers;
use crate::outbox::state_columns;
use crate::pools::Held;
use crate::rows::{failure_text, owner_uuid};

/// Answers whether it was still the caller's.
pub(crate) async fn finish_post(
    held: Arc<Held>,
    numbers: Arc<Numbers>,
    request: FinishPost,
) -> Result<bool, Fault> {
    let Some(workspace) = numbers.find_workspace(held.link(), &request.workspace).await? else {
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
