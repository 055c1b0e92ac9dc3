//! Takes up events that were made durable and not processed, because whoever took them in died or could not reach the store.

use std::sync::{Arc, Weak};

use hapax_api::{Code, Problem};
use hapax_engine::model::{Hook, HookStatus};

use super::Hooks;
use super::outcome::Outcome;
use crate::errors::of_store;
use crate::limits::{SWEEP_WEBHOOKS_AFTER, SWEEP_WEBHOOKS_AT_ONCE, SWEEP_WEBHOOKS_EVERY};

impl Hooks {
    /// Takes them up for as long as the server lives.
    pub(crate) async fn keep_sweeping(this: Weak<Self>) {
        loop {
            tokio::time::sleep(SWEEP_WEBHOOKS_EVERY).await;
            let Some(hooks) = this.upgrade() else { return };
            if let Err(problem) = hooks.sweep().await {
                tracing::warn!(%problem, "looking for unprocessed webhooks failed; trying again");
            }
        }
    }

    /// Takes up those that have waited longer than anybody who is alive would let them; answers how many were processed. Two nodes
    /// may take up the same: it happens once all the same.
    pub(crate) async fn sweep(self: &Arc<Self>) -> Result<usize, Problem> {
        let Some(book) = self.store.hook_book() else { return Ok(0) };
        let before = self.store.now().minus(SWEEP_WEBHOOKS_AFTER);
        let waiting = book.list_unprocessed_hooks(before, SWEEP_WEBHOOKS_AT_ONCE).await;
        let mut processed = 0;
        for hook in waiting.map_err(|error| of_store(&error))? {
            match self.process_again(hook).await {
                Ok(_) => processed += 1,
                // The others would meet the same.
                Err(problem) if problem.code == Code::StoreUnavailable => return Err(problem),
                Err(problem) => tracing::warn!(%problem, "a webhook could not be processed; trying again"),
            }
        }
        Ok(processed)
    }

    /// Processes an event by its source as it is now, whether that is enabled or not.
    pub(super) async fn process_again(self: &Arc<Self>, hook: Hook) -> Result<HookStatus, Problem> {
        let (hooks, again) = (self.clone(), hook.clone());
        match tokio::spawn(async move { hooks.read_and_process(&again).await }).await {
            Ok(processed) => processed,
            // It would panic again; whoever looks at it finds it.
            Err(_) => self.finish(&hook, &Outcome::failed("the server failed; its log tells more")).await,
        }
    }

    async fn read_and_process(&self, hook: &Hook) -> Result<HookStatus, Problem> {
        let Some(source) = self.find_source(&hook.id.workspace, hook.id.source.as_str()).await? else {
            return self.finish(hook, &Outcome::failed("there is no such source any more")).await;
        };
        let Ok(headers) = hook.headers.to() else {
            return self.finish(hook, &Outcome::failed("its headers cannot be read any more")).await;
        };
        match source.source().read_again(&hook.id.event, &headers, &hook.body) {
            Ok(event) => self.process(&source, hook, event).await,
            Err(unreadable) => self.finish(hook, &Outcome::failed(unreadable.to_string())).await,
        }
    }
}
