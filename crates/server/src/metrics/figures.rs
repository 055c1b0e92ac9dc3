//! Figures that only the store knows, read at most once in a while however often somebody scrapes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{StepState, Timestamp};
use hapax_engine::store::{ListDoubts, OutboxDepth, Store, StoreError};
use tokio::sync::Mutex;

use crate::limits::{STORE_FIGURES_KEPT_FOR, STORE_FIGURES_PATIENCE};

#[derive(Debug)]
pub(super) struct Figures {
    store: Arc<dyn Store>,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    asked_at: Option<Instant>,
    is_up: bool,
    seen: Option<(Instant, StoreFigures)>,
}

/// What the store holds, over all workspaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreFigures {
    pub(super) doubts: usize,
    pub(super) oldest_doubt_at: Option<Timestamp>,
    pub(super) oldest_request_at: Option<Timestamp>,
    pub(super) outbox: OutboxDepth,
}

/// What is known of the store.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) is_up: bool,
    /// As it was last seen, which may be long ago if it is down.
    pub(super) figures: Option<StoreFigures>,
    pub(super) age: Duration,
}

impl Figures {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Figures { store, last: Mutex::default() }
    }

    /// Those who scrape at once wait for one look at the store.
    pub(super) async fn read(&self) -> Reading {
        let mut last = self.last.lock().await;
        if last.asked_at.is_none_or(|at| at.elapsed() >= STORE_FIGURES_KEPT_FOR) {
            last.asked_at = Some(Instant::now());
            match tokio::time::timeout(STORE_FIGURES_PATIENCE, self.look()).await {
                Ok(Ok(figures)) => {
                    last.is_up = true;
                    last.seen = Some((Instant::now(), figures));
                }
                Ok(Err(error)) => {
                    last.is_up = false;
                    tracing::warn!(%error, "the store could not be read for metrics");
                }
                Err(_) => {
                    last.is_up = false;
                    tracing::warn!("the store did not answer in time for metrics");
                }
            }
        }
        let age = last.seen.map_or(Duration::ZERO, |(at, _)| at.elapsed());
        Reading { is_up: last.is_up, figures: last.seen.map(|(_, figures)| figures), age }
    }

    async fn look(&self) -> Result<StoreFigures, StoreError> {
        let request = ListDoubts { workspace: None, after: None, limit: MAX_PAGE };
        let doubts = self.store.list_doubts(request).await?;
        let oldest_request_at = match self.store.key_book() {
            Some(book) => book.find_oldest_request().await?,
            None => None,
        };
        Ok(StoreFigures {
            doubts: doubts.len(),
            oldest_doubt_at: doubts.first().and_then(|doubt| match doubt.step.state {
                StepState::InDoubt { since, .. } => Some(since),
                _ => None,
            }),
            oldest_request_at,
            outbox: self.store.measure_outbox().await?,
        })
    }
}
