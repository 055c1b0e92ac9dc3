//! Supervises a run granted to this engine, from its lease to the end of the activation.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::activation::Activation;
use super::drive::{DriveEnd, Driver, panic_text};
use super::external_lease;
use super::inner::{Inner, Phase};
use super::registry::Workflow;
use super::run_slot::{Arrival, RunSlot};
use super::stats::Counters;
use crate::limits::{MAX_STALLED_PAUSE, RELEASE_TRIES};
use crate::model::{CommitBuilder, Payload, RunHead};
use crate::store::{CommitOutcome, RunLog, StoreError};

/// Source of the state that a granted run continues from.
pub(crate) enum DriveSource {
    Fresh(Payload),
    Resident(Box<Driver>, Option<Arrival>),
    Log,
}

/// Executes the run, and releases it if its driver panics. User code can panic in an announcer or in a
/// destructor. Without this, the engine would renew the lease of a run that it no longer executes.
pub(crate) async fn supervise(inner: Arc<Inner>, slot: Arc<RunSlot>, head: RunHead, source: DriveSource) {
    let driving = AssertUnwindSafe(drive_to_its_end(inner.clone(), slot.clone(), head, source));
    let Err(panic) = driving.catch_unwind().await else { return };
    Counters::add(&inner.counters.driver_panics);
    tracing::error!(run = %slot.run, panic = panic_text(&*panic), "the driver of a run panicked; the run is released");
    inner.slots.remove(&slot);
    inner.changed.notify_waiters();
    if inner.phase() != Phase::Killed
        && let Err(error) = release_stalled(&inner, &slot).await
    {
        tracing::warn!(run = %slot.run, %error, "the run could not be released; its lease will run out");
    }
}

/// Releases the lease as one without progress, so that a run that panics every driver is eventually
/// quarantined.
async fn release_stalled(inner: &Arc<Inner>, slot: &RunSlot) -> Result<(), StoreError> {
    for _ in 0..RELEASE_TRIES {
        let Some(view) = inner.call_store(inner.store.find_run(&slot.workspace, slot.run)).await? else {
            return Ok(());
        };
        let is_ours = view.head.fence == slot.fence
            && view.head.state.lease().is_some_and(|lease| lease.owner == inner.owner);
        if !is_ours {
            return Ok(());
        }
        let now = inner.store.now();
        let mut write = CommitBuilder::new(&view.head, now);
        if let Err(illegal) = write.release_stalled(now.plus(stalled_pause(view.head.stalls))) {
            tracing::error!(run = %slot.run, %illegal, "a fault in the engine; the lease of the run will run out");
            return Ok(());
        }
        let wake_at = write.head().state.wake_at();
        match inner.call_store(inner.store.commit_run(write.finish())).await? {
            CommitOutcome::Stale(_) => {}
            CommitOutcome::ChildrenRefused(_) | CommitOutcome::LeaseLost => return Ok(()),
            CommitOutcome::Committed { .. } => {
                if let Some(wake_at) = wake_at {
                    inner.wake_scheduler_by(wake_at);
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Pause of a run after its driver panicked. It grows with the number of panics in a row.
fn stalled_pause(stalls: u32) -> Duration {
    Duration::from_secs(1 << stalls.min(10)).min(MAX_STALLED_PAUSE)
}

/// Executes the run until it parks, ends or is lost.
async fn drive_to_its_end(inner: Arc<Inner>, slot: Arc<RunSlot>, head: RunHead, source: DriveSource) {
    let facts = head.facts.clone();
    // Only runs of registered workflows are claimed.
    let Some(workflow) = inner.registry.find(&facts.workspace, &facts.workflow) else {
        panic!(
            "granted a run of {}, which is not registered for workspace {}",
            facts.workflow, facts.workspace
        );
    };
    let Ok(_external) = external_lease::take(&inner, &slot).await else {
        inner.slots.remove(&slot);
        inner.changed.notify_waiters();
        return;
    };
    let mut driver = match prepare(&inner, &slot, head, source, &workflow).await {
        Some(driver) => driver,
        None => {
            inner.slots.remove(&slot);
            inner.changed.notify_waiters();
            return;
        }
    };
    loop {
        let end = poll_fn(|cx| driver.poll(cx)).await;
        match end {
            DriveEnd::Parked(wake_at) => {
                inner.slots.remove(&slot);
                inner.keep_resident(driver);
                inner.wake_scheduler_by(wake_at);
            }
            DriveEnd::Closed(result) => {
                let head = driver.activation.replay().head.clone();
                drop(driver);
                inner.slots.remove(&slot);
                inner.notify_run_ended(&head, &result);
            }
            DriveEnd::Released => {
                inner.slots.remove(&slot);
                inner.scheduler_wakeup.notify_one();
            }
            DriveEnd::Lost => inner.slots.remove(&slot),
            DriveEnd::Reload => {
                let (head, cut_off) = {
                    let mut replay = driver.activation.replay();
                    (replay.head.clone(), std::mem::take(&mut replay.cut_off))
                };
                match prepare(&inner, &slot, head, DriveSource::Log, &workflow).await {
                    Some(again) => {
                        driver = again;
                        driver.activation.replay().cut_off = cut_off;
                        continue;
                    }
                    None => inner.slots.remove(&slot),
                }
            }
        }
        if inner.phase() != Phase::Running {
            inner.changed.notify_waiters();
        } else if inner.slots.len() + 1 == inner.options.max_active {
            // There is room again for waiting runs.
            inner.scheduler_wakeup.notify_one();
        }
        return;
    }
}

async fn prepare(
    inner: &Arc<Inner>,
    slot: &Arc<RunSlot>,
    head: RunHead,
    source: DriveSource,
    workflow: &Arc<Workflow>,
) -> Option<Driver> {
    match source {
        DriveSource::Fresh(input) => {
            let activation = Activation::fresh(inner.clone(), slot.clone(), head);
            Some(Driver::new(activation, workflow.clone(), input))
        }
        DriveSource::Resident(driver, arrival) => {
            let arrivals = head.arrivals;
            driver.activation.regrant(slot.clone(), head);
            let seen = driver.activation.replay().arrivals_seen;
            match arrival {
                Some(arrival) if arrivals == seen + 1 => {
                    driver.activation.replay().record_last_arrival(arrival, arrivals)
                }
                None if arrivals == seen => {}
                _ => {
                    let log = load_log(inner, slot).await?;
                    driver.activation.replay().refresh(log);
                }
            }
            Counters::add(&inner.counters.resumed_in_memory);
            driver.activation.wake_all();
            Some(*driver)
        }
        DriveSource::Log => {
            let mut log = load_log(inner, slot).await?;
            if log.head.fence != head.fence {
                return None;
            }
            let input = log.input.clone();
            log.steps.sort_by_key(|step| step.started_version);
            Counters::add(&inner.counters.replays);
            let activation = Activation::replaying(inner.clone(), slot.clone(), log);
            Some(Driver::new(activation, workflow.clone(), input))
        }
    }
}

async fn load_log(inner: &Inner, slot: &RunSlot) -> Option<RunLog> {
    match inner.load(slot).await {
        Ok(Some(log)) => Some(log),
        Ok(None) => {
            tracing::error!(run = %slot.run, "granted a run that the store does not have");
            None
        }
        Err(error) => {
            tracing::error!(run = %slot.run, %error, "the run's log could not be read; it is left for another");
            None
        }
    }
}
