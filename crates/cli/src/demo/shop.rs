//! The demo itself: fires starts, kills the worker in the middle, starts it again, and counts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::STARTS_PER_ORDER;
use super::effect_counts::EffectCounts;
use super::live_table::LiveTable;
use super::messages::{Audit, Report, Request};
use super::order::Order;
use super::worker_process::WorkerProcess;
use super::world::World;

/// Orders come in over this long, or faster if there are few.
const TRADING_FOR: Duration = Duration::from_secs(7);
const SLOWEST_PACE: Duration = Duration::from_millis(120);
/// When the late ones of an order's starts come, after its first.
const LATE_AFTER_MS: std::ops::Range<u64> = 200..1_800;
/// A worker lives at least this long, so that it gets something done.
const SHORTEST_LIFE: Duration = Duration::from_millis(150);
const REDRAW_EVERY: Duration = Duration::from_millis(80);

pub(super) struct Shop {
    folder: PathBuf,
    world: Arc<World>,
    worker: WorkerProcess,
    board: LiveTable,
    began: Instant,
    /// Starts yet to be fired, the next first.
    to_fire: VecDeque<(Instant, u32)>,
    /// Starts that were fired and not yet answered.
    unanswered: BTreeMap<u64, u32>,
    /// Orders that were started at least once.
    fired: HashSet<u32>,
    finished: HashSet<u32>,
    recovered: HashSet<u32>,
    crashes_left: u32,
    life: Duration,
    crash: CrashPlan,
    tally: EffectCounts,
}

/// When the worker is killed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashPlan {
    Never,
    At(Instant),
    /// As soon as a provider has done something and the worker does not know it yet.
    AtNextCall,
}

impl Shop {
    pub(super) async fn open(orders: u32, crashes: u32, folder: &Path) -> Result<Shop> {
        let world = World::open().await?;
        let worker = WorkerProcess::start(folder, &world)?;
        let began = Instant::now();
        let trading_for = TRADING_FOR.min(SLOWEST_PACE * orders);
        Ok(Shop {
            folder: folder.to_path_buf(),
            world,
            worker,
            board: LiveTable::new(),
            began,
            to_fire: plan_starts(began, orders, trading_for / orders),
            unanswered: BTreeMap::new(),
            fired: HashSet::new(),
            finished: HashSet::new(),
            recovered: HashSet::new(),
            crashes_left: crashes,
            life: trading_for / (crashes + 1),
            crash: CrashPlan::Never,
            tally: EffectCounts { orders: u64::from(orders), ..EffectCounts::default() },
        })
    }

    /// Takes all orders through all crashes, and gives the final figures.
    pub(super) async fn trade(&mut self) -> Result<EffectCounts> {
        let mut redraw = interval(REDRAW_EVERY);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_done() {
            self.take_turn(&mut redraw).await?;
        }
        let audit = self.audit().await?;
        self.refresh();
        self.tally.audit(audit);
        self.board.clear();
        Ok(self.tally.clone())
    }

    fn is_done(&self) -> bool {
        let all_finished = self.finished.len() as u64 == self.tally.orders;
        self.to_fire.is_empty() && self.unanswered.is_empty() && all_finished
    }

    async fn take_turn(&mut self, redraw: &mut Interval) -> Result<()> {
        let next_start = self.to_fire.front().map(|(at, _)| *at);
        let far = Instant::now() + Duration::from_secs(3600);
        let kill_at = match self.crash {
            CrashPlan::At(at) => at,
            CrashPlan::Never | CrashPlan::AtNextCall => far,
        };
        tokio::select! {
            report = self.worker.next_report() => match report? {
                Some(report) => self.note(report).await,
                None => Err(self.worker.last_words()),
            },
            () = sleep_until(next_start.unwrap_or(far)) => self.fire_next().await,
            () = sleep_until(kill_at) => self.kill_time().await,
            () = self.world.next_call(), if self.crash == CrashPlan::AtNextCall => self.kill().await,
            _ = redraw.tick() => {
                self.refresh();
                self.board.show(&self.tally);
                Ok(())
            }
        }
    }

    async fn note(&mut self, report: Report) -> Result<()> {
        match report {
            Report::Opened { unfinished, finished } => {
                if self.tally.crashes > 0 {
                    let text = format!(
                        "the worker is back; {} runs go on where they were cut off",
                        unfinished.len()
                    );
                    self.board.say(self.began.elapsed(), &text);
                }
                self.recovered.extend(unfinished);
                self.finished.extend(finished);
                self.plan_crash();
                self.fire_again().await
            }
            Report::Started { start } => {
                self.unanswered.remove(&start);
                Ok(())
            }
            Report::Finished { order } => {
                self.finished.insert(order);
                Ok(())
            }
            Report::Failed { order, why } => bail!("order {order} failed: {why}"),
            Report::Audited(_) => Ok(()),
        }
    }

    async fn fire_next(&mut self) -> Result<()> {
        match self.to_fire.pop_front() {
            Some((_, order)) => self.fire(order).await,
            None => Ok(()),
        }
    }

    async fn fire(&mut self, order: u32) -> Result<()> {
        self.tally.starts_fired += 1;
        let start = self.tally.starts_fired;
        self.fired.insert(order);
        self.unanswered.insert(start, order);
        self.worker.ask(&Request::Start { start, order: Order::new(order) }).await
    }

    /// A caller that got no answer asks again.
    async fn fire_again(&mut self) -> Result<()> {
        for order in std::mem::take(&mut self.unanswered).into_values() {
            self.tally.starts_sent_again += 1;
            self.fire(order).await?;
        }
        Ok(())
    }

    fn plan_crash(&mut self) {
        self.crash = match self.crashes_left {
            0 => CrashPlan::Never,
            _ => {
                let life = self.life.mul_f64(0.6 + 0.6 * fastrand::f64()).max(SHORTEST_LIFE);
                CrashPlan::At(Instant::now() + life)
            }
        };
    }

    /// Every other time wait for the worst moment: the card is charged and the worker has not heard of it. Otherwise
    /// any moment will do at which something is under way.
    async fn kill_time(&mut self) -> Result<()> {
        let is_idle = self.fired.is_subset(&self.finished);
        if self.crashes_left % 2 == 1 || is_idle {
            self.crash = CrashPlan::AtNextCall;
            return Ok(());
        }
        self.kill().await
    }

    async fn kill(&mut self) -> Result<()> {
        self.worker.kill().await?;
        self.crashes_left -= 1;
        self.crash = CrashPlan::Never;
        self.tally.crashes += 1;
        // Its messages before it died are true.
        while let Some(report) = self.worker.next_report().await? {
            self.note(report).await?;
        }
        self.board.say(self.began.elapsed(), &format!("crash {}: the worker was killed", self.tally.crashes));
        self.worker = WorkerProcess::start(&self.folder, &self.world)?;
        Ok(())
    }

    async fn audit(&mut self) -> Result<Audit> {
        self.worker.ask(&Request::Audit).await?;
        loop {
            match self.worker.next_report().await? {
                Some(Report::Audited(audit)) => return Ok(audit),
                Some(_) => {}
                None => return Err(self.worker.last_words()),
            }
        }
    }

    fn refresh(&mut self) {
        self.tally.count(self.world.count(u32::try_from(self.tally.orders).unwrap_or(u32::MAX)));
        self.tally.runs_completed = self.finished.len() as u64;
        self.tally.recovered = self.recovered.intersection(&self.finished).count() as u64;
        self.tally.seconds = self.began.elapsed().as_secs_f64();
    }
}

/// When which order is started: at once three times, and twice more when nobody expects it.
fn plan_starts(began: Instant, orders: u32, pace: Duration) -> VecDeque<(Instant, u32)> {
    let mut starts = Vec::new();
    for order in 1..=orders {
        let first = began + pace * (order - 1);
        for nth in 0..STARTS_PER_ORDER {
            let late = if nth < 3 { 0 } else { fastrand::u64(LATE_AFTER_MS) };
            starts.push((first + Duration::from_millis(late), order));
        }
    }
    starts.sort();
    starts.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_started_five_times() {
        let starts = plan_starts(Instant::now(), 7, Duration::from_millis(1));
        for order in 1..=7 {
            assert_eq!(starts.iter().filter(|(_, of)| *of == order).count(), 5);
        }
        assert!(starts.iter().is_sorted());
    }
}
