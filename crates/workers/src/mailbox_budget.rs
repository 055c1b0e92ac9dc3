//! How many bytes of messages may wait for the sessions of one workspace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hapax_engine::model::WorkspaceId;

use crate::limits::MAX_WORKSPACE_MAILBOX_BYTES;

/// Bytes that wait for the sessions of one workspace.
#[derive(Debug, Default)]
pub(crate) struct MailboxBudget(AtomicUsize);

impl MailboxBudget {
    /// The bytes of one session have changed.
    pub(crate) fn change(&self, before: usize, after: usize) {
        match after >= before {
            true => self.0.fetch_add(after - before, Ordering::AcqRel),
            false => self.0.fetch_sub(before - after, Ordering::AcqRel),
        };
    }

    /// Returns whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.0.load(Ordering::Acquire) < MAX_WORKSPACE_MAILBOX_BYTES
    }
}

/// Budgets of all workspaces that have sessions.
#[derive(Debug, Default)]
pub(crate) struct MailboxBudgets(Mutex<BTreeMap<WorkspaceId, Weak<MailboxBudget>>>);

impl MailboxBudgets {
    pub(crate) fn of(&self, workspace: &WorkspaceId) -> Arc<MailboxBudget> {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = budgets.get(workspace).and_then(Weak::upgrade) {
            return budget;
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        let budget = Arc::new(MailboxBudget::default());
        budgets.insert(workspace.clone(), Arc::downgrade(&budget));
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_of_a_workspace_share_a_budget_for_as_long_as_there_are_any() {
        let budgets = MailboxBudgets::default();
        let (acme, other) = (WorkspaceId::new("acme").unwrap(), WorkspaceId::new("other").unwrap());
        let first = budgets.of(&acme);
        first.change(0, MAX_WORKSPACE_MAILBOX_BYTES);
        assert!(!budgets.of(&acme).has_room() && budgets.of(&other).has_room());
        first.change(MAX_WORKSPACE_MAILBOX_BYTES, 7);
        assert!(budgets.of(&acme).has_room());
        drop(first);
        assert_eq!(budgets.0.lock().unwrap().values().filter(|budget| budget.strong_count() > 0).count(), 0);
    }
}
