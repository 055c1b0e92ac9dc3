//! Renewing leases.

use std::collections::HashSet;
use std::sync::Arc;

use hapax_engine::limits::MAX_RENEWALS;
use hapax_engine::model::{RunId, Timestamp};
use hapax_engine::store::{HeldLease, RenewLeases};
use uuid::Uuid;

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::pools::HeldConnection;
use crate::rows::{self, uuid};

/// Returns the lost leases, in the order of the request.
pub(crate) async fn renew_leases(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: RenewLeases,
    now: Timestamp,
) -> Result<Vec<RunId>, Fault> {
    let mut known: Vec<(WorkspaceRowId, &HeldLease)> = Vec::with_capacity(request.leases.len());
    for lease in &request.leases {
        known.extend(
            interned_names.find_workspace(held.link(), &lease.workspace).await?.map(|number| (number, lease)),
        );
    }
    // The common lock order of runs.
    known.sort_unstable_by_key(|(workspace, lease)| (lease.run, *workspace, lease.fence));
    let workspaces: Vec<i32> = known.iter().map(|(workspace, _)| workspace.0).collect();
    let ids: Vec<Uuid> = known.iter().map(|(_, lease)| uuid(lease.run)).collect();
    let fences: Vec<i64> = known.iter().map(|(_, lease)| count(lease.fence.get())).collect();
    let (limit, until) = (known.len() as i64, millis(now.plus(request.lease_for)));
    let owner = Uuid::from_u128(request.owner.as_u128());
    let statement = held.prepare_cached(include_str!("../sql/renew_leases.sql")).await?;
    let found = held.query(&statement, &[&limit, &workspaces, &ids, &fences, &until, &owner]).await?;
    let renewed: HashSet<(i32, RunId, u64)> =
        rows::collect(&found, |mut row| Ok((row.get()?, row.run()?, row.count()?)))?.into_iter().collect();
    let mut lost = Vec::new();
    for lease in &request.leases {
        let is_renewed = match interned_names.find_workspace(held.link(), &lease.workspace).await? {
            Some(workspace) => renewed.contains(&(workspace.0, lease.run, lease.fence.get())),
            None => false,
        };
        if !is_renewed {
            lost.push(lease.run);
        }
    }
    Ok(lost)
}

/// Checks the request before anything is sent.
pub(crate) fn check(request: &RenewLeases) -> Result<(), Fault> {
    match request.leases.len() > MAX_RENEWALS {
        true => Err(Fault::Refused(format!("more than {MAX_RENEWALS} leases in one renewal"))),
        false => Ok(()),
    }
}
