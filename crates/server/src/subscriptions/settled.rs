//! Deliveries that came to their end, many at once: sent once more, or forgotten.

use hapax_api::Problem;
use hapax_engine::Error;
use hapax_engine::model::{Actor, EffectKey, OutboxMessage, OutboxStatus};

use super::{Subscription, Subscriptions};
use crate::errors::problem_of;

/// Some of the deliveries to one subscription, and where the next ones are.
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

    /// Has deliveries to a subscription that is told things be sent once more; answers with them as they are due.
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

    /// Has deliveries that were given up for a subscription be forgotten; answers with them as they were. It may have been deleted.
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

/// One that somebody else has seen to meanwhile is passed over.
fn unless_taken(seen_to: Result<OutboxMessage, Error>) -> Result<Option<OutboxMessage>, Problem> {
    match seen_to {
        Ok(post) => Ok(Some(post)),
        Err(Error::AfterEffectInProgress(_) | Error::NoSuchAfterEffect(_)) => Ok(None),
        Err(error) => Err(problem_of(&error)),
    }
}
