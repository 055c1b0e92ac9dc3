//! A run that was granted to this engine, from its lease to the end of this stretch of driving.

use std::future::poll_fn;
use std::sync::Arc;

use super::activation::Activation;
use super::active::{Active, News};
use super::drive::{Driver, End};
use super::inner::{Inner, Phase};
use super::outside_lease;
use super::registry::Workflow;
use super::stats::Counters;
use crate::model::{Payload, RunHead};
use crate::store::RunLog;

/// What a granted run is driven from.
pub(crate) enum Source {
    Fresh(Payload),
    Resident(Box<Driver>, Option<News>),
    Log,
}

/// Drives until the run is parked, ended, or no longer ours.
pub(crate) async fn drive_to_its_end(inner: Arc<Inner>, active: Arc<Active>, head: RunHead, source: Source) {
    let facts = head.facts.clone();
    let mut found = inner.registry.find(&facts.workspace, &facts.workflow);
    if found.is_none()
        && let Some(loader) = inner.loader.get()
    {
        loader.load(&facts.workspace, &facts.workflow).await;
        found = inner.registry.find(&facts.workspace, &facts.workflow);
    }
    let Some(workflow) = found else {
        tracing::error!(run = %active.run, workflow = %head.facts.workflow, "granted a run whose workflow is not registered");
        inner.active.remove(&active);
        return;
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
                let head = driver.activation.desk().head.clone();
                match prepare(&inner, &active, head, Source::Log, &workflow).await {
                    Some(again) => {
                        driver = again;
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
    active: &Arc<Active>,
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

async fn loaded(inner: &Inner, active: &Active) -> Option<RunLog> {
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
