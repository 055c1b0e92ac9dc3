//! Ending the leases of a node that is known to be dead.

use std::sync::Arc;

use hapax_engine::limits::MAX_RENEWALS;
use hapax_engine::model::{OwnerId, Timestamp};
use uuid::Uuid;

use crate::codes::millis;
use crate::fault::Fault;
use crate::limits::{LONGEST_ENDED_LEASE, MAX_ENDED_QUEUES};
use crate::pools::HeldConnection;

/// Ends some of the leases; returns their number, which is zero when none is left.
pub(crate) async fn end_leases(
    held: Arc<HeldConnection>,
    owner: OwnerId,
    now: Timestamp,
) -> Result<u64, Fault> {
    let statement = held.prepare_cached(include_str!("../sql/end_leases.sql")).await?;
    let (owner, until) = (Uuid::from_u128(owner.as_u128()), millis(now.plus(LONGEST_ENDED_LEASE)));
    let (most, queues) = (MAX_RENEWALS as i64, MAX_ENDED_QUEUES);
    Ok(held.execute(&statement, &[&owner, &millis(now), &until, &most, &queues]).await?)
}
