//! Processes stored events that were left behind because the receiving process died or could not
//! reach the store.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hapax_api::{Code, Problem};
use hapax_documents::evaluate_fairly;
use hapax_engine::model::{InboundEvent, InboundEventStatus, Payload, Timestamp};
use hapax_engine::store::{FinishInboundEvent, ListUnprocessedEvents};

use super::InboundWebhooks;
use super::outcome::Outcome;
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::limits::{
    LONGEST_WEBHOOK_PAUSE, MAX_WEBHOOK_SWEEPS, SWEEP_WEBHOOKS_AFTER, SWEEP_WEBHOOKS_AT_ONCE,
    SWEEP_WEBHOOKS_EVERY,
};

impl InboundWebhooks {
    /// Sweeps for as long as the server lives.
    pub(crate) async fn keep_sweeping(this: Weak<Self>, pass: impl Fn()) {
        loop {
            tokio::time::sleep(SWEEP_WEBHOOKS_EVERY).await;
            let Some(inbound) = this.upgrade() else { return };
            if let Err(problem) = inbound.sweep().await {
                tracing::warn!(%problem, "looking for unprocessed webhooks failed; trying again");
            }
            pass();
        }
    }

    /// Processes events that have waited longer than a living process would leave them; returns how
    /// many. It continues where the last sweep ended, and wraps around at the end, so an event that
    /// fails does not block later ones. If two nodes process the same event, its actions still
    /// happen once.
    pub(crate) async fn sweep(self: &Arc<Self>) -> Result<usize, Problem> {
        let Some(book) = self.store.webhook_store() else { return Ok(0) };
        let now = self.store.now();
        let after = *self.swept.lock().expect("no holder panics");
        let (before, limit) = (now.minus(SWEEP_WEBHOOKS_AFTER), SWEEP_WEBHOOKS_AT_ONCE);
        let waiting = book.list_unprocessed_events(ListUnprocessedEvents { before, after, limit }).await;
        let waiting = waiting.map_err(|error| problem_of_store(&error))?;
        let (is_last, mut processed) = (waiting.len() < limit, 0);
        for hook in waiting {
            *self.swept.lock().expect("no holder panics") = Some((hook.received_at, hook.place));
            if now < due_at(&hook) {
                continue;
            }
            match self.process_again(hook.clone()).await {
                Ok(_) => processed += 1,
                // The other events would fail too. The next sweep begins behind this one, in case
                // only this one fails.
                Err(problem) if problem.code == Code::StoreUnavailable => return Err(problem),
                Err(problem) => self.put_off(&hook, &problem).await?,
            }
        }
        if is_last {
            *self.swept.lock().expect("no holder panics") = None;
        }
        Ok(processed)
    }

    /// Postpones an event that could not be processed, with the reason; marks it as failed after
    /// too many tries.
    async fn put_off(&self, hook: &InboundEvent, problem: &Problem) -> Result<(), Problem> {
        let attempts = hook.attempts + 1;
        let (event, source) = (hook.id.event.as_str(), hook.id.source.as_str());
        tracing::warn!(%problem, workspace = %hook.id.workspace, source, event, attempts, "a webhook could not be processed");
        let why = Outcome::failed(format!("it could not be processed, {attempts} times: {problem}"));
        if attempts >= MAX_WEBHOOK_SWEEPS {
            return self.finish(hook, &why).await.map(drop);
        }
        let outcome = Some(Payload::of(&why).map_err(|invalid| problem_of_invalid(&invalid))?);
        let (id, attempts, status) = (hook.id.clone(), hook.attempts, InboundEventStatus::Received);
        let written = self.book()?.finish_event(FinishInboundEvent { id, attempts, status, outcome }).await;
        // If the write was refused, another node has processed it.
        written.map(drop).map_err(|error| problem_of_store(&error))
    }

    /// Processes an event with the current source, enabled or not.
    pub(super) async fn process_again(
        self: &Arc<Self>,
        hook: InboundEvent,
    ) -> Result<InboundEventStatus, Problem> {
        let (inbound, again) = (self.clone(), hook.clone());
        match tokio::spawn(async move { inbound.read_and_process(&again).await }).await {
            Ok(processed) => processed,
            // It would panic again; a person will find it in the list.
            Err(_) => self.finish(&hook, &Outcome::failed("the server failed; its log has the cause")).await,
        }
    }

    async fn read_and_process(&self, hook: &InboundEvent) -> Result<InboundEventStatus, Problem> {
        let Some(source) = self.find_source(&hook.id.workspace, hook.id.source.as_str()).await? else {
            return self.finish(hook, &Outcome::failed("the source no longer exists")).await;
        };
        let Ok(headers) = hook.headers.to() else {
            return self.finish(hook, &Outcome::failed("its headers cannot be read any more")).await;
        };
        let read = || source.source().read_again(&hook.id.event, &headers, &hook.body);
        match evaluate_fairly(&source.workspace, read).await {
            Ok(event) => self.process(&source, hook, event).await,
            Err(unreadable) => self.finish(hook, &Outcome::failed(unreadable.to_string())).await,
        }
    }
}

/// When a postponed event is due: the wait doubles each time, up to a limit.
fn due_at(hook: &InboundEvent) -> Timestamp {
    match hook.attempts {
        0 => hook.received_at,
        attempts => hook.changed_at.plus(pause_after(attempts)),
    }
}

fn pause_after(attempts: u32) -> Duration {
    SWEEP_WEBHOOKS_AFTER.saturating_mul(1 << (attempts - 1).min(16)).min(LONGEST_WEBHOOK_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_put_off_waits_longer_each_time_and_about_two_hours_in_all() {
        let pauses: Vec<u64> =
            (1..MAX_WEBHOOK_SWEEPS).map(|attempts| pause_after(attempts).as_secs()).collect();
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert!(pauses.is_sorted() && pauses.last() == Some(&LONGEST_WEBHOOK_PAUSE.as_secs()), "{pauses:?}");
        let hours = pauses.iter().sum::<u64>() / 3600;
        assert_eq!(hours, 2, "{pauses:?}");
    }
}
