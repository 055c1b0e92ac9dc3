//! A run that was granted to this engine, from its lease to the end of this stretch of driving.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::activation::Activation;
use super::drive::{Driver, End, panic_text};
use super::inner::{Inner, Phase};
use super::outside_lease;
use super::registry::Workflow;
use super::run_slot::{NewArrival, RunSlot};
use super::stats::Counters;
use crate::limits::{MAX_STALLED_PAUSE, RELEASE_TRIES};
use crate::model::{CommitBuilder, Payload, RunHead};
use crate::store::{CommitOutcome, RunLog, StoreError};

/// What a granted run is driven from.
pub(crate) enum Source {
    Fresh(Payload),
    Resident(Box<Driver>, Option<NewArrival>),
    Log,
}

/// Drives the run, and lets go of it if its driver panics: an announcer or a value of the user's that panics when it is
/// dropped must not leave the run with an engine that renews its lease and does nothing else.
pub(crate) async fn supervise(inner: Arc<Inner>, active: Arc<RunSlot>, head: RunHead, source: Source) {
    let driving = AssertUnwindSafe(drive_to_its_end(inner.clone(), active.clone(), head, source));
    let Err(panic) = driving.catch_unwind().await else { return };
    Counters::add(&inner.counters.driver_panics);
    tracing::error!(run = %active.run, panic = panic_text(&*panic), "the driver of a run panicked; the run is released");
    inner.active.remove(&active);
    inner.changed.notify_waiters();
    if inner.phase() != Phase::Killed
        && let Err(error) = release_stalled(&inner, &active).await
    {
        tracing::warn!(run = %active.run, %error, "the run could not be released; its lease will run out");
    }
}

/// Gives the lease back as one that ended without progress, so that a run that panics every driver ends up quarantined.
async fn release_stalled(inner: &Arc<Inner>, active: &RunSlot) -> Result<(), StoreError> {
    for _ in 0..RELEASE_TRIES {
        let Some(view) = inner.answer(inner.store.find_run(&active.workspace, active.run)).await? else {
            return Ok(());
        };
        let is_ours = view.head.fence == active.fence
            && view.head.state.lease().is_some_and(|lease| lease.owner == inner.owner);
        if !is_ours {
            return Ok(());
        }
        let now = inner.store.now();
        let mut write = CommitBuilder::new(&view.head, now);
        if let Err(illegal) = write.release_stalled(now.plus(stalled_pause(view.head.stalls))) {
            tracing::error!(run = %active.run, %illegal, "a fault in the engine; the lease of the run will run out");
            return Ok(());
        }
        let wake_at = write.head().state.wake_at();
        match inner.answer(inner.store.commit_run(write.finish())).await? {
            CommitOutcome::Stale(_) => {}
            CommitOutcome::ChildrenRefused(_) | CommitOutcome::LeaseLost => return Ok(()),
            CommitOutcome::Committed { .. } => {
                if let Some(wake_at) = wake_at {
                    inner.look_by(wake_at);
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// How long a run rests after its driver panicked, the longer the more often that happened in a row.
fn stalled_pause(stalls: u32) -> Duration {
    Duration::from_secs(1 << stalls.min(10)).min(MAX_STALLED_PAUSE)
}

/// Drives until the run is parked, ended, or no longer ours.
async fn drive_to_its_end(inner: Arc<Inner>, active: Arc<RunSlot>, head: RunHead, source: Source) {
    let facts = head.facts.clone();
    // Only what is served here is claimed.
    let Some(workflow) = inner.registry.find(&facts.workspace, &facts.workflow) else {
        panic!(
            "granted a run of {}, which is not registered for workspace {}",
            facts.workflow, facts.workspace
        );
    };
    let Ok(_outside) = outside_lease::take(&inner, &active).await else {
        inner.active.remove(&active);
        inner.changed.notify_waiters();
        return;
    };
    let mut driver = match prepare(&inner, &active, head, source, &workflow).await {
        Some(driver) => driver,
        None => {
            inner.active.remove(&active);
            inner.changed.notify_waiters();
            return;
        }
    };
    loop {
        let end = poll_fn(|cx| driver.poll(cx)).await;
        match end {
            End::Parked(wake_at) => {
                inner.active.remove(&active);
                inner.keep(driver);
                inner.look_by(wake_at);
            }
            End::Closed(result) => {
                let head = driver.activation.desk().head.clone();
                drop(driver);
                inner.active.remove(&active);
                inner.ended(&head, &result);
            }
            End::LetGo => {
                inner.active.remove(&active);
                inner.nudge.notify_one();
            }
            End::Lost => inner.active.remove(&active),
            End::Reread => {
                let (head, cut_off) = {
                    let mut desk = driver.activation.desk();
                    (desk.head.clone(), std::mem::take(&mut desk.cut_off))
                };
                match prepare(&inner, &active, head, Source::Log, &workflow).await {
                    Some(again) => {
                        driver = again;
                        driver.activation.desk().cut_off = cut_off;
                        continue;
                    }
                    None => inner.active.remove(&active),
                }
            }
        }
        if inner.phase() != Phase::Running {
            inner.changed.notify_waiters();
        } else if inner.active.len() + 1 == inner.options.max_active {
            // There is room again for runs that wait.
            inner.nudge.notify_one();
        }
        return;
    }
}

async fn prepare(
    inner: &Arc<Inner>,
    active: &Arc<RunSlot>,
    head: RunHead,
    source: Source,
    workflow: &Arc<Workflow>,
) -> Option<Driver> {
    match source {
        Source::Fresh(input) => {
            let activation = Activation::fresh(inner.clone(), active.clone(), head);
            Some(Driver::new(activation, workflow.clone(), input))
        }
        Source::Resident(driver, news) => {
            let arrivals = head.arrivals;
            driver.activation.regrant(active.clone(), head);
            let seen = driver.activation.desk().arrivals_seen;
            match news {
                Some(news) if arrivals == seen + 1 => driver.activation.desk().note_last(news, arrivals),
                None if arrivals == seen => {}
                _ => {
                    let log = loaded(inner, active).await?;
                    driver.activation.desk().refresh(log);
                }
            }
            Counters::add(&inner.counters.resumed_in_memory);
            driver.activation.wake_all();
            Some(*driver)
        }
        Source::Log => {
            let mut log = loaded(inner, active).await?;
            if log.head.fence != head.fence {
                return None;
            }
            let input = log.input.clone();
            log.steps.sort_by_key(|step| step.started_version);
            Counters::add(&inner.counters.replays);
            let activation = Activation::replaying(inner.clone(), active.clone(), log);
            Some(Driver::new(activation, workflow.clone(), input))
        }
    }
}

async fn loaded(inner: &Inner, active: &RunSlot) -> Option<RunLog> {
    match inner.load(active).await {
        Ok(Some(log)) => Some(log),
        Ok(None) => {
            tracing::error!(run = %active.run, "granted a run that the store does not have");
            None
        }
        Err(error) => {
            tracing::error!(run = %active.run, %error, "the run's log could not be read; it is left for another");
            None
        }
    }
}
