//! Budget for request bodies in memory: one for all requests, with a share for each address and
//! each workspace, so that no caller can use it up for all others.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_engine::model::WorkspaceId;

use crate::connection_limit::address_group;
use crate::limits::{BODY_FRAME_OVERHEAD, MAX_BODY_BYTES_IN_MEMORY};

/// The exhausted share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {} has no room for more body bytes", self.share())]
pub struct BodyBudgetFull {
    share: BudgetOwner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetOwner {
    Server,
    Address,
    Workspace,
}

impl BodyBudgetFull {
    /// A stable word: `server`, `address` or `workspace`.
    pub fn share(self) -> &'static str {
        match self.share {
            BudgetOwner::Server => "server",
            BudgetOwner::Address => "address",
            BudgetOwner::Workspace => "workspace",
        }
    }
}

/// The budget of one server.
#[derive(Debug)]
pub struct BodyBudget {
    most: usize,
    used: Mutex<BudgetUse>,
}

#[derive(Debug, Default)]
struct BudgetUse {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    by_workspace: HashMap<WorkspaceId, usize>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        BodyBudget::new(MAX_BODY_BYTES_IN_MEMORY)
    }
}

impl BodyBudget {
    /// Creates a budget of `most` bytes, a quarter of them for one address and half of them for one
    /// workspace.
    pub fn new(most: usize) -> Self {
        BodyBudget { most, used: Mutex::default() }
    }

    /// Bytes in use now.
    pub fn used(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, BudgetUse> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the account of one request from `address`.
    pub(crate) fn charge(self: &Arc<Self>, address: IpAddr) -> BodyCharge {
        let taken =
            RequestCharge { budget: self.clone(), address: address_group(address), state: Mutex::default() };
        BodyCharge(Arc::new(taken))
    }
}

/// Memory used by one request: an extension of the request. It is released when the last copy is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct BodyCharge(Arc<RequestCharge>);

#[derive(Debug)]
struct RequestCharge {
    budget: Arc<BodyBudget>,
    address: IpAddr,
    state: Mutex<RequestChargeState>,
}

#[derive(Debug, Default)]
struct RequestChargeState {
    bytes: usize,
    workspace: Option<WorkspaceId>,
}

impl RequestCharge {
    fn state(&self) -> MutexGuard<'_, RequestChargeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyCharge {
    /// Charges a frame of `length` bytes that has arrived.
    pub(crate) fn add(&self, length: usize) -> Result<(), BodyBudgetFull> {
        let RequestCharge { budget, address, .. } = &*self.0;
        let bytes = length + BODY_FRAME_OVERHEAD;
        let mut state = self.0.state();
        let mut used = budget.lock();
        let fits = |used: usize, most: usize| used + bytes <= most;
        let full = |share| Err(BodyBudgetFull { share });
        // An address over its share gets that error even if the server's budget is exhausted too.
        if !fits(used.by_address.get(address).copied().unwrap_or(0), budget.most / 4) {
            return full(BudgetOwner::Address);
        }
        if !fits(used.all, budget.most) {
            return full(BudgetOwner::Server);
        }
        if let Some(workspace) = &state.workspace {
            if !fits(used.by_workspace.get(workspace).copied().unwrap_or(0), budget.most / 2) {
                return full(BudgetOwner::Workspace);
            }
            *used.by_workspace.entry(workspace.clone()).or_default() += bytes;
        }
        used.all += bytes;
        *used.by_address.entry(*address).or_default() += bytes;
        state.bytes += bytes;
        Ok(())
    }

    /// Charges the request to `workspace` from now on, including the bytes that have arrived.
    pub(crate) fn count_for(&self, workspace: &WorkspaceId) {
        let mut state = self.0.state();
        if state.workspace.is_some() {
            return;
        }
        if state.bytes > 0 {
            *self.0.budget.lock().by_workspace.entry(workspace.clone()).or_default() += state.bytes;
        }
        state.workspace = Some(workspace.clone());
    }
}

impl Drop for RequestCharge {
    fn drop(&mut self) {
        let RequestChargeState { bytes, workspace } = std::mem::take(&mut *self.state());
        if bytes == 0 {
            return;
        }
        let mut used = self.budget.lock();
        used.all -= bytes;
        give_back(&mut used.by_address, &self.address, bytes);
        if let Some(workspace) = &workspace {
            give_back(&mut used.by_workspace, workspace, bytes);
        }
    }
}

fn give_back<K: Hash + Eq>(used: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    if let Some(count) = used.get_mut(key) {
        *count = count.saturating_sub(bytes);
        if *count == 0 {
            used.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 1_000;
    const CHARGED: usize = BLOCK + BODY_FRAME_OVERHEAD;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn fill(charge: &BodyCharge) -> (usize, BodyBudgetFull) {
        let mut frames = 0;
        loop {
            match charge.add(BLOCK) {
                Ok(()) => frames += 1,
                Err(full) => return (frames, full),
            }
        }
    }

    #[test]
    fn an_address_gets_a_quarter_and_everything_is_given_back() {
        let budget = Arc::new(BodyBudget::new(40 * CHARGED));
        let charges: Vec<_> = (1..=5).map(|last| budget.charge(address(last))).collect();
        for charge in &charges[..4] {
            let (frames, full) = fill(charge);
            assert_eq!((frames, full.share()), (10, "address"));
        }
        let (frames, full) = fill(&charges[4]);
        assert_eq!((frames, full.share()), (0, "server"));
        assert_eq!(budget.used(), 40 * CHARGED);
        let copy = charges[0].clone();
        drop(charges);
        assert_eq!(budget.used(), 10 * CHARGED, "a copy keeps what the request takes up");
        drop(copy);
        let used = budget.lock();
        assert!(used.all == 0 && used.by_address.is_empty() && used.by_workspace.is_empty());
    }

    #[test]
    fn a_workspace_gets_half_also_of_what_arrived_before_it_was_known() {
        let budget = Arc::new(BodyBudget::new(40 * CHARGED));
        let acme = WorkspaceId::new("acme").unwrap();
        let charges: Vec<_> = (1..=3).map(|last| budget.charge(address(last))).collect();
        charges[0].add(BLOCK).unwrap();
        charges.iter().for_each(|charge| charge.count_for(&acme));
        let told: Vec<_> = charges.iter().map(fill).map(|(frames, full)| (frames, full.share())).collect();
        assert_eq!(told, [(9, "address"), (10, "address"), (0, "workspace")]);
        drop(charges);
        assert!(budget.lock().by_workspace.is_empty());
    }
}
