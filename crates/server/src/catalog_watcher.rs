//! Polling cache of the catalog: a node reads changed items, starting where the last successful
//! read began. So a node that could not read, or was paused, misses nothing.

use std::sync::{Mutex, Weak};

use async_trait::async_trait;
use hapax_api::Problem;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{CatalogItem, CatalogKind, Timestamp};
use hapax_engine::store::{ListCatalogItems, Store};

use crate::errors::problem_of_store;
use crate::limits::{CATALOG_OVERLAP, CATALOG_POLL};

/// Cache of all items of one kind on this node.
#[async_trait]
pub(crate) trait CatalogWatcher: Send + Sync + 'static {
    /// Kind of the items.
    const KIND: CatalogKind;

    /// Store that holds the items.
    fn store(&self) -> &dyn Store;

    /// Time of the last successful read.
    fn last_read(&self) -> &LastFullRead;

    /// Caches an item, unless it or a newer version is known. An error does not stop the other
    /// items; an item that failed for a temporary reason is tried again.
    async fn take(&self, item: &CatalogItem) -> Result<(), Problem>;

    /// Runs after each read.
    fn after_read(&self) {}
}

/// Start of the last read that cached everything; none before the first one.
#[derive(Debug, Default)]
pub(crate) struct LastFullRead(Mutex<Option<Timestamp>>);

impl LastFullRead {
    /// Time of the oldest change to read; `None` reads everything. It lies a little before the last
    /// read, because a write may become visible after a later one, and clocks differ.
    fn since(&self, now: Timestamp) -> Option<Timestamp> {
        let last_read = *self.0.lock().expect("no holder panics");
        last_read.map(|last_read| last_read.min(now).minus(CATALOG_OVERLAP))
    }

    fn record(&self, begun_at: Timestamp) {
        *self.0.lock().expect("no holder panics") = Some(begun_at);
    }
}

/// Reads the changes since the last successful read; the first call reads everything.
pub(crate) async fn learn_changes<L: CatalogWatcher>(learner: &L) -> Result<(), Problem> {
    let begun_at = learner.store().now();
    let since = learner.last_read().since(begun_at);
    if take_changed(learner, since).await? {
        learner.last_read().record(begun_at);
    }
    Ok(())
}

/// Reads changes again and again, for as long as the cache lives.
pub(crate) async fn keep_learning<L: CatalogWatcher>(this: Weak<L>, pass: impl Fn()) {
    loop {
        tokio::time::sleep(CATALOG_POLL).await;
        let Some(learner) = this.upgrade() else { return };
        if let Err(problem) = learn_changes(&*learner).await {
            let kind = L::KIND.as_str();
            tracing::warn!(kind, %problem, "looking for what other nodes were given failed; trying again");
        }
        learner.after_read();
        pass();
    }
}

/// Caches every item, of all workspaces, that was written at `changed_since` or later. Returns true
/// if no item must be tried again.
async fn take_changed<L: CatalogWatcher>(
    learner: &L,
    changed_since: Option<Timestamp>,
) -> Result<bool, Problem> {
    let (kind, limit) = (L::KIND, MAX_PAGE);
    let catalog = learner.store().catalog().expect("looked at when the server was made");
    let (mut after, mut is_whole) = (None, true);
    loop {
        let request = ListCatalogItems { workspace: None, kind, changed_since, after, limit };
        let items = catalog.list_items(request).await.map_err(|error| problem_of_store(&error))?;
        for item in &items {
            // An invalid item must not block the others.
            if let Err(problem) = learner.take(item).await {
                let (id, workspace) = (item.id.as_str(), item.workspace.as_str());
                tracing::error!(kind = kind.as_str(), id, workspace, %problem, "it cannot be used here");
                is_whole &= !problem.retryable;
            }
        }
        match items.last() {
            Some(last) if items.len() == limit => after = Some(last.id.clone()),
            _ => return Ok(is_whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use hapax_api::Code;
    use hapax_engine::clock::ManualClock;
    use hapax_engine::memory::MemoryStore;
    use hapax_engine::model::{Name, Payload, WorkspaceId};
    use hapax_engine::store::{Catalog, PutCatalogItem, PutOutcome};

    use super::*;

    struct Node {
        store: MemoryStore,
        last_read: LastFullRead,
        known: Mutex<BTreeSet<String>>,
        is_busy: AtomicBool,
    }

    #[async_trait]
    impl CatalogWatcher for Node {
        const KIND: CatalogKind = CatalogKind::Source;

        fn store(&self) -> &dyn Store {
            &self.store
        }

        fn last_read(&self) -> &LastFullRead {
            &self.last_read
        }

        async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
            match (item.name.as_str(), self.is_busy.load(Ordering::SeqCst)) {
                ("broken", _) => Err(Problem::new(Code::StoreBroken, "it cannot be read")),
                ("later", true) => Err(Problem::new(Code::StoreUnavailable, "not now")),
                _ => {
                    self.known.lock().unwrap().insert(item.name.clone());
                    Ok(())
                }
            }
        }
    }

    impl Node {
        fn at(clock: &Arc<ManualClock>) -> Self {
            Node {
                store: MemoryStore::new(clock.clone()),
                last_read: LastFullRead::default(),
                known: Mutex::default(),
                is_busy: AtomicBool::new(true),
            }
        }

        async fn put(&self, name: &str) {
            let request = PutCatalogItem {
                workspace: WorkspaceId::new("acme").unwrap(),
                kind: CatalogKind::Source,
                id: Name::new("id", name).unwrap(),
                name: name.into(),
                body: Payload::of(&1).unwrap(),
                expected: None,
                note: None,
            };
            assert!(matches!(self.store.put_item(request).await.unwrap(), PutOutcome::Put(_)));
        }

        fn knows(&self, name: &str) -> bool {
            self.known.lock().unwrap().contains(name)
        }
    }

    #[tokio::test]
    async fn a_look_goes_on_where_the_last_one_began_however_long_ago_that_is() {
        let clock = Arc::new(ManualClock::default());
        let node = Node::at(&clock);
        node.put("first").await;
        learn_changes(&node).await.unwrap();
        assert!(node.knows("first"));
        node.put("second").await;
        clock.advance(CATALOG_OVERLAP * 100);
        learn_changes(&node).await.unwrap();
        assert!(node.knows("second"));
        node.known.lock().unwrap().clear();
        learn_changes(&node).await.unwrap();
        assert!(!node.knows("first") && !node.knows("second"), "what is long known is not read again");
    }

    #[tokio::test]
    async fn what_could_not_be_taken_in_is_tried_again_and_what_never_can_is_not_in_the_way() {
        let clock = Arc::new(ManualClock::default());
        let node = Node::at(&clock);
        for name in ["broken", "later", "other"] {
            node.put(name).await;
        }
        learn_changes(&node).await.unwrap();
        assert!(node.knows("other") && !node.knows("later"));
        clock.advance(CATALOG_OVERLAP * 2);
        node.is_busy.store(false, Ordering::SeqCst);
        learn_changes(&node).await.unwrap();
        assert!(node.knows("later"));
        let since = node.last_read.since(node.store.now());
        assert_eq!(since, Some(node.store.now().minus(CATALOG_OVERLAP)), "the broken one keeps nobody back");
    }

    #[test]
    fn a_clock_that_was_set_back_hides_nothing() {
        let last_read = LastFullRead::default();
        let now = Timestamp::from_millis(1_000_000_000);
        assert_eq!(last_read.since(now), None, "nobody has looked");
        last_read.record(now.plus(Duration::from_secs(3600)));
        assert_eq!(last_read.since(now), Some(now.minus(CATALOG_OVERLAP)));
    }
}
