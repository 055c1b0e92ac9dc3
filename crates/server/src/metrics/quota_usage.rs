//! What workspaces take of their quotas.

use std::collections::BTreeMap;

use hapax_documents::list_evaluation_times;

use super::exposition::Exposition;
use crate::limits::MAX_QUOTA_SERIES;
use crate::quotas::{Quota, Quotas, WorkspaceUsage};

/// Writes the limits, and what each workspace takes. Workspaces beyond the limit are counted
/// together, those with the fewest refusals first.
pub(super) fn write(out: &mut Exposition, quotas: &Quotas) {
    let mut limits = out.family("hapax_quota_limit", "gauge", "Quota of each workspace, by setting.");
    for (quota, limit) in quotas.limits() {
        limits.sample(&[("quota", quota.as_str())], limit as f64);
    }
    let list = together(quotas.list());
    let mut family = out.family(
        "hapax_workspace_requests_in_progress",
        "gauge",
        "Requests of a workspace that this node works on, or that wait here.",
    );
    for (workspace, usage) in &list {
        family.sample(&[("workspace", workspace)], usage.requests_now as f64);
    }
    let help = "Live streams of a workspace that are open on this node.";
    let mut family = out.family("hapax_workspace_streams_open", "gauge", help);
    for (workspace, usage) in &list {
        family.sample(&[("workspace", workspace)], usage.streams_now as f64);
    }
    let help = "Time of expensive expressions of a workspace on this node. Workspaces take turns with them.";
    let mut family = out.family("hapax_evaluation_seconds_total", "counter", help);
    for (workspace, took) in list_evaluation_times() {
        family.sample(&[("workspace", workspace.as_str())], took.as_secs_f64());
    }
    let help = "Requests that were refused because the workspace had reached a quota.";
    let mut family = out.family("hapax_quota_refused_total", "counter", help);
    for (workspace, usage) in &list {
        for (quota, count) in &usage.refused {
            family.count(&[("quota", quota.as_str()), ("workspace", workspace)], *count);
        }
    }
}

#[derive(Debug, Default)]
struct Series {
    requests_now: usize,
    streams_now: usize,
    refused: BTreeMap<Quota, u64>,
}

fn together(mut list: Vec<WorkspaceUsage>) -> BTreeMap<String, Series> {
    list.sort_by_key(|usage| std::cmp::Reverse(usage.refused.values().sum::<u64>()));
    let mut series: BTreeMap<String, Series> = BTreeMap::new();
    for (place, usage) in list.into_iter().enumerate() {
        let name = match place < MAX_QUOTA_SERIES {
            true => usage.workspace.to_string(),
            false => String::new(),
        };
        let sum = series.entry(name).or_default();
        sum.requests_now += usage.requests_now;
        sum.streams_now += usage.streams_now;
        for (quota, count) in usage.refused {
            *sum.refused.entry(quota).or_default() += count;
        }
    }
    series
}
