//! Quotas of workspaces: how much one workspace may take of what this node shares among all.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_api::{Code, Problem};
use hapax_engine::model::WorkspaceId;
use hapax_engine::store::Store;

use crate::answer::Refused;
use crate::errors::problem_of_store;
use crate::limits::{
    MAX_RATE_LIMIT_ENTRIES, OPEN_RUNS_COUNTED_EVERY, OPEN_RUNS_COUNTED_WHEN_FULL_EVERY, WORKSPACE_OPEN_RUNS,
    WORKSPACE_REQUESTS_AT_ONCE, WORKSPACE_REQUESTS_PER_SECOND, WORKSPACE_STARTS_PER_SECOND,
    WORKSPACE_STREAMS,
};

/// Quotas of each workspace. Each node counts for itself, except for open runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaOptions {
    /// Requests per second, and the size of a burst.
    pub requests_per_second: NonZeroU32,
    /// Requests in progress, including long polls.
    pub requests_at_once: usize,
    /// Starts of runs per second, and the size of a burst.
    pub starts_per_second: NonZeroU32,
    /// Live streams.
    pub streams: usize,
    /// Runs that have not ended.
    pub open_runs: usize,
}

impl Default for QuotaOptions {
    fn default() -> Self {
        QuotaOptions {
            requests_per_second: WORKSPACE_REQUESTS_PER_SECOND,
            requests_at_once: WORKSPACE_REQUESTS_AT_ONCE,
            starts_per_second: WORKSPACE_STARTS_PER_SECOND,
            streams: WORKSPACE_STREAMS,
            open_runs: WORKSPACE_OPEN_RUNS,
        }
    }
}

/// Kind of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quota {
    RequestsPerSecond,
    RequestsAtOnce,
    StartsPerSecond,
    Streams,
    OpenRuns,
}

impl Quota {
    pub(crate) const ALL: [Quota; 5] = [
        Quota::RequestsPerSecond,
        Quota::RequestsAtOnce,
        Quota::StartsPerSecond,
        Quota::Streams,
        Quota::OpenRuns,
    ];

    /// Its setting.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Quota::RequestsPerSecond => "workspace-requests-per-second",
            Quota::RequestsAtOnce => "workspace-requests-at-once",
            Quota::StartsPerSecond => "workspace-starts-per-second",
            Quota::Streams => "workspace-streams",
            Quota::OpenRuns => "workspace-open-runs",
        }
    }
}

/// Counts what each workspace takes, and rejects what is beyond its quota. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Quotas {
    options: Arc<QuotaOptions>,
    by_workspace: Arc<Mutex<HashMap<WorkspaceId, Usage>>>,
}

#[derive(Debug)]
struct Usage {
    requests: Tokens,
    starts: Tokens,
    requests_now: usize,
    streams_now: usize,
    /// Open runs at the last count, and starts here since then.
    open_runs: usize,
    counted_at: Option<Instant>,
    refused: BTreeMap<Quota, u64>,
    seen_at: Instant,
}

/// Token bucket that holds as much as flows into it in a second.
#[derive(Debug, Clone, Copy)]
struct Tokens {
    left: f64,
    at: Instant,
}

impl Tokens {
    fn full(per_second: NonZeroU32, now: Instant) -> Self {
        Tokens { left: f64::from(per_second.get()), at: now }
    }

    /// Takes one, or says how long to wait for it.
    fn take(&mut self, per_second: NonZeroU32, now: Instant) -> Result<(), Duration> {
        let rate = f64::from(per_second.get());
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        *self = Tokens { left: (self.left + gained).min(rate), at: now };
        match self.left >= 1.0 {
            true => {
                self.left -= 1.0;
                Ok(())
            }
            false => Err(Duration::from_secs_f64((1.0 - self.left) / rate)),
        }
    }
}

/// A request, or a stream, that is counted until this is dropped.
#[derive(Debug)]
pub struct Held {
    quotas: Quotas,
    workspace: WorkspaceId,
    of: fn(&mut Usage) -> &mut usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.quotas.all();
        if let Some(usage) = all.get_mut(&self.workspace) {
            let count = (self.of)(usage);
            *count = count.saturating_sub(1);
        }
    }
}

impl Quotas {
    /// Nothing is taken yet.
    pub fn new(options: QuotaOptions) -> Self {
        Quotas { options: Arc::new(options), by_workspace: Arc::default() }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Usage>> {
        // The counts are right even after a panic.
        self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the usage of a workspace.
    fn with<T>(&self, workspace: &WorkspaceId, now: Instant, change: impl FnOnce(&mut Usage) -> T) -> T {
        let mut all = self.all();
        if let Some(usage) = all.get_mut(workspace) {
            usage.seen_at = now;
            return change(usage);
        }
        if all.len() >= MAX_RATE_LIMIT_ENTRIES {
            let is_idle = |usage: &Usage| {
                usage.requests_now + usage.streams_now == 0
                    && now.saturating_duration_since(usage.seen_at) > Duration::from_secs(1)
            };
            all.retain(|_, usage| !is_idle(usage));
        }
        change(all.entry(workspace.clone()).or_insert_with(|| Usage {
            requests: Tokens::full(self.options.requests_per_second, now),
            starts: Tokens::full(self.options.starts_per_second, now),
            requests_now: 0,
            streams_now: 0,
            open_runs: 0,
            counted_at: None,
            refused: BTreeMap::new(),
            seen_at: now,
        }))
    }

    /// Counts a request, and that it is in progress until what is returned is dropped.
    pub fn take_request(&self, workspace: &WorkspaceId, now: Instant) -> Result<Held, Refused> {
        let options = &self.options;
        let taken = self.with(workspace, now, |usage| {
            if usage.requests_now >= options.requests_at_once {
                return Err(usage.refuse(Quota::RequestsAtOnce, Duration::from_secs(1)));
            }
            let rate = options.requests_per_second;
            usage.requests.take(rate, now).map_err(|wait| usage.refuse(Quota::RequestsPerSecond, wait))?;
            usage.requests_now += 1;
            Ok(())
        });
        taken.map_err(|refusal| self.problem(&refusal))?;
        Ok(Held { quotas: self.clone(), workspace: workspace.clone(), of: |usage| &mut usage.requests_now })
    }

    /// Counts a stream until what is returned is dropped.
    pub(crate) fn take_stream(&self, workspace: &WorkspaceId, now: Instant) -> Result<Held, Refused> {
        let most = self.options.streams;
        let taken = self.with(workspace, now, |usage| match usage.streams_now >= most {
            true => Err(usage.refuse(Quota::Streams, Duration::from_secs(5))),
            false => {
                usage.streams_now += 1;
                Ok(())
            }
        });
        taken.map_err(|refusal| self.problem(&refusal))?;
        Ok(Held { quotas: self.clone(), workspace: workspace.clone(), of: |usage| &mut usage.streams_now })
    }

    /// Counts the start of a run. The open runs are read from the store only now and then, and more
    /// often only while the workspace is at its limit.
    pub(crate) async fn take_start(
        &self,
        store: &dyn Store,
        workspace: &WorkspaceId,
        now: Instant,
    ) -> Result<(), Refused> {
        let (rate, most) = (self.options.starts_per_second, self.options.open_runs);
        let needs_count = self.with(workspace, now, |usage| {
            let every = match usage.open_runs >= most {
                true => OPEN_RUNS_COUNTED_WHEN_FULL_EVERY,
                false => OPEN_RUNS_COUNTED_EVERY,
            };
            let is_old = usage.counted_at.is_none_or(|at| now.saturating_duration_since(at) >= every);
            // Until the new count is there, other requests use the old one.
            if is_old {
                usage.counted_at = Some(now);
            }
            is_old
        });
        if needs_count {
            let counted = store.count_open_runs(workspace, most).await;
            let counted = counted.map_err(|error| problem_of_store(&error))?;
            self.with(workspace, now, |usage| usage.open_runs = counted);
        }
        let taken = self.with(workspace, now, |usage| {
            if usage.open_runs >= most {
                return Err(usage.refuse(Quota::OpenRuns, OPEN_RUNS_COUNTED_WHEN_FULL_EVERY));
            }
            usage.starts.take(rate, now).map_err(|wait| usage.refuse(Quota::StartsPerSecond, wait))?;
            usage.open_runs += 1;
            Ok(())
        });
        taken.map_err(|refusal| self.problem(&refusal).into())
    }

    fn limit(&self, quota: Quota) -> usize {
        let count = |count: NonZeroU32| usize::try_from(count.get()).unwrap_or(usize::MAX);
        match quota {
            Quota::RequestsPerSecond => count(self.options.requests_per_second),
            Quota::RequestsAtOnce => self.options.requests_at_once,
            Quota::StartsPerSecond => count(self.options.starts_per_second),
            Quota::Streams => self.options.streams,
            Quota::OpenRuns => self.options.open_runs,
        }
    }

    fn problem(&self, (quota, wait): &(Quota, Duration)) -> Problem {
        let limit = self.limit(*quota);
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        let (code, what) = match quota {
            Quota::RequestsPerSecond => (Code::RateLimited, "requests per second"),
            Quota::StartsPerSecond => (Code::RateLimited, "starts of runs per second"),
            Quota::RequestsAtOnce => (Code::RateLimited, "requests at once"),
            Quota::Streams => (Code::TooManyStreams, "live streams"),
            Quota::OpenRuns => (Code::QuotaExceeded, "open runs"),
        };
        let detail = format!(
            "The workspace has reached its quota of {limit} {what} ({}). Nothing was done; send the request again after {seconds} s, \
             under the same key.",
            quota.as_str()
        );
        Problem::new(code, detail).retry_after(seconds).with("quota", quota.as_str()).with("limit", limit)
    }

    /// Usage and refusals of each workspace, for metrics.
    pub(crate) fn list(&self) -> Vec<WorkspaceUsage> {
        let all = self.all();
        let mut list: Vec<WorkspaceUsage> = all
            .iter()
            .map(|(workspace, usage)| WorkspaceUsage {
                workspace: workspace.clone(),
                requests_now: usage.requests_now,
                streams_now: usage.streams_now,
                refused: usage.refused.clone(),
            })
            .collect();
        list.sort_by(|one, other| one.workspace.cmp(&other.workspace));
        list
    }

    /// The limits, by setting.
    pub(crate) fn limits(&self) -> [(Quota, usize); Quota::ALL.len()] {
        Quota::ALL.map(|quota| (quota, self.limit(quota)))
    }
}

/// Current usage of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceUsage {
    pub(crate) workspace: WorkspaceId,
    pub(crate) requests_now: usize,
    pub(crate) streams_now: usize,
    pub(crate) refused: BTreeMap<Quota, u64>,
}

impl Usage {
    fn refuse(&mut self, quota: Quota, wait: Duration) -> (Quota, Duration) {
        *self.refused.entry(quota).or_default() += 1;
        (quota, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas() -> Quotas {
        Quotas::new(QuotaOptions {
            requests_per_second: NonZeroU32::new(3).unwrap(),
            requests_at_once: 2,
            streams: 1,
            ..QuotaOptions::default()
        })
    }

    fn workspace(name: &str) -> WorkspaceId {
        WorkspaceId::new(name).unwrap()
    }

    #[test]
    fn a_workspace_has_so_many_requests_at_once_and_gives_them_back() {
        let (quotas, now) = (quotas(), Instant::now());
        let acme = workspace("acme");
        let first = quotas.take_request(&acme, now).unwrap();
        let _second = quotas.take_request(&acme, now).unwrap();
        let refused = quotas.take_request(&acme, now).unwrap_err();
        assert_eq!((refused.problem().status, refused.problem().code), (429, Code::RateLimited));
        assert!(quotas.take_request(&workspace("globex"), now).is_ok(), "another one is another matter");
        drop(first);
        assert!(quotas.take_request(&acme, now).is_ok());
        let usage = &quotas.list()[0];
        assert_eq!((usage.requests_now, &usage.refused), (1, &BTreeMap::from([(Quota::RequestsAtOnce, 1)])));
    }

    #[test]
    fn a_workspace_has_so_many_requests_a_second() {
        let (quotas, now) = (quotas(), Instant::now());
        let acme = workspace("acme");
        for _ in 0..3 {
            drop(quotas.take_request(&acme, now).unwrap());
        }
        let refused = quotas.take_request(&acme, now).unwrap_err();
        assert_eq!((refused.problem().status, refused.problem().code), (429, Code::RateLimited));
        assert!(refused.problem().retry_after.is_some());
        let third = Duration::from_millis(334);
        assert!(quotas.take_request(&acme, now + third).is_ok());
        assert!(quotas.take_request(&acme, now + third).is_err());
    }

    #[test]
    fn a_workspace_has_so_many_streams() {
        let (quotas, now) = (quotas(), Instant::now());
        let acme = workspace("acme");
        let stream = quotas.take_stream(&acme, now).unwrap();
        assert_eq!(quotas.take_stream(&acme, now).unwrap_err().problem().code, Code::TooManyStreams);
        assert!(quotas.take_stream(&workspace("globex"), now).is_ok());
        drop(stream);
        assert!(quotas.take_stream(&acme, now).is_ok());
    }

    #[test]
    fn what_is_remembered_of_idle_workspaces_is_bounded() {
        let (quotas, begin) = (quotas(), Instant::now());
        let _busy = quotas.take_stream(&workspace("busy"), begin).unwrap();
        for place in 0..MAX_RATE_LIMIT_ENTRIES + 10 {
            let now = begin + Duration::from_millis(place as u64);
            drop(quotas.take_request(&workspace(&format!("w{place}")), now));
        }
        assert!(quotas.all().len() <= MAX_RATE_LIMIT_ENTRIES);
        assert!(quotas.all().contains_key(&workspace("busy")), "what is held is not forgotten");
    }
}
