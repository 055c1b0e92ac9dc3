//! Bulk operations on ended deliveries: redeliver and discard.

use hapax_api::Problem;
use hapax_engine::Error;
use hapax_engine::model::{Actor, EffectKey, OutboxMessage, OutboxStatus};

use super::{Subscription, Subscriptions};
use crate::errors::problem_of;

/// Some deliveries to one subscription, and the position of the next ones.
pub(crate) type Deliveries = (Vec<OutboxMessage>, Option<EffectKey>);

impl Subscriptions {
    /// Deliveries to a subscription after `after`, in the order of their runs.
    pub(crate) async fn list_deliveries(
        &self,
        to: &Subscription,
        status: Option<OutboxStatus>,
        after: Option<EffectKey>,
        limit: usize,
    ) -> Result<Deliveries, Problem> {
        let engine = self.engine.workspace(to.workspace.clone());
        let found = engine.list_after_effects_to(to.target().as_str(), status, after, limit).await;
        let found = found.map_err(|error| problem_of(&error))?;
        let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.clone());
        Ok((found, next))
    }

    /// Redelivers to an enabled subscription; returns the deliveries, which are now due.
    pub(crate) async fn redeliver_many(
        &self,
        to: &Subscription,
        status: OutboxStatus,
        after: Option<EffectKey>,
        limit: usize,
        by: &Actor,
        reason: &str,
    ) -> Result<Deliveries, Problem> {
        to.require_enabled()?;
        let (found, next) = self.list_deliveries(to, Some(status), after, limit).await?;
        let engine = self.engine.workspace(to.workspace.clone());
        let mut due = Vec::with_capacity(found.len());
        for post in found {
            due.extend(unless_taken(engine.redeliver(&post.id, by.clone(), reason).await)?);
        }
        Ok((due, next))
    }

    /// Discards dead deliveries of a subscription, which may be deleted; returns them as they were.
    pub(crate) async fn discard_many(
        &self,
        of: &Subscription,
        limit: usize,
        by: &Actor,
        reason: &str,
    ) -> Result<Vec<OutboxMessage>, Problem> {
        let (found, _) = self.list_deliveries(of, Some(OutboxStatus::Dead), None, limit).await?;
        let engine = self.engine.workspace(of.workspace.clone());
        let mut forgotten = Vec::with_capacity(found.len());
        for post in found {
            forgotten.extend(unless_taken(engine.discard_announcement(&post.id, by.clone(), reason).await)?);
        }
        Ok(forgotten)
    }
}

/// Skips a delivery that another request has handled in the meantime.
fn unless_taken(seen_to: Result<OutboxMessage, Error>) -> Result<Option<OutboxMessage>, Problem> {
    match seen_to {
        Ok(post) => Ok(Some(post)),
        Err(Error::AfterEffectInProgress(_) | Error::NoSuchAfterEffect(_)) => Ok(None),
        Err(error) => Err(problem_of(&error)),
    }
}
