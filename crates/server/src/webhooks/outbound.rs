//! Outgoing webhook subscriptions: kept in the catalog, known to the engine on every node.

mod change;
mod send;
mod settled;
mod stored;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock, Weak};

use async_trait::async_trait;
use hapax_api::{Code, Problem};
use hapax_engine::model::{CatalogItem, CatalogKind, Failure, Name, RetryPolicy, Subscribers, WorkspaceId};
use hapax_engine::runtime::{Announcer, Delivery, TargetOptions};
use hapax_engine::store::{Catalog, ListCatalogItems, Store};
use hapax_engine::{Engine, Error};
use hapax_webhooks::limits::{LONGEST_PAUSE, MAX_DELIVERY_ATTEMPTS};
use serde_json::value::RawValue;

use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::egress_policy::EgressPolicy;
use crate::errors::{problem_of, problem_of_store};
use crate::limits::{BURY_DELETED_FOR, DELIVERIES_AT_ONCE, WEBHOOK_TIMEOUT};
use crate::sealing::Sealer;

pub(crate) use settled::Deliveries;
pub(crate) use stored::{Subscription, subscription_of};

/// All subscriptions that this node knows.
pub(crate) struct Subscriptions {
    this: Weak<Subscriptions>,
    engine: Engine,
    store: Arc<dyn Store>,
    outgoing: EgressPolicy,
    sealer: Arc<Sealer>,
    known: RwLock<KnownSubscriptions>,
    last_read: LastFullRead,
}

#[derive(Default)]
struct KnownSubscriptions {
    /// In the order of their ids, so that all nodes notify in the same order.
    by_id: BTreeMap<Name, Arc<Subscription>>,
    told: HashMap<WorkspaceId, Subscribers>,
}

impl Subscriptions {
    /// The subscriptions in `store`; from now on the engine reads its subscribers here.
    pub(crate) fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        outgoing: EgressPolicy,
        sealer: Arc<Sealer>,
    ) -> Arc<Self> {
        let subscriptions = Arc::new_cyclic(|this: &Weak<Subscriptions>| Subscriptions {
            this: this.clone(),
            engine,
            store,
            outgoing,
            sealer,
            known: RwLock::default(),
            last_read: LastFullRead::default(),
        });
        let announcer = Arc::new(SubscriptionAnnouncer(Arc::downgrade(&subscriptions)));
        if !subscriptions.engine.set_announcer(announcer) {
            tracing::warn!("the engine has another announcer; subscriptions of this server receive nothing");
        }
        subscriptions
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    /// One subscription of a workspace, even if it is deleted.
    pub(crate) async fn get(&self, workspace: &WorkspaceId, id: &str) -> Result<Arc<Subscription>, Problem> {
        let absent = || {
            Problem::new(
                Code::NotFound,
                "There is no such subscription in this workspace; list them with GET /api/v1/webhook-subscriptions.",
            )
        };
        let id = Name::new("subscription id", id).map_err(|_| absent())?;
        let found = self.read(&id).await?;
        found.filter(|found| found.workspace == *workspace).ok_or_else(absent)
    }

    /// The current subscription in the store, in any workspace.
    async fn read(&self, id: &Name) -> Result<Option<Arc<Subscription>>, Problem> {
        let item = self.catalog().find_item(CatalogKind::Subscription, id).await;
        item.map_err(|error| problem_of_store(&error))?.map(|item| self.learn(&item)).transpose()
    }

    /// Subscriptions of a workspace after `after`, in the order of their ids, and whether there may
    /// be more. Deleted ones are left out, so a page may be short.
    pub(crate) async fn list(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<(Vec<Arc<Subscription>>, Option<Name>), Problem> {
        let request = ListCatalogItems {
            workspace: Some(workspace.clone()),
            kind: CatalogKind::Subscription,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        let next = items.last().filter(|_| items.len() == limit).map(|last| last.id.clone());
        let found: Result<Vec<_>, Problem> = items.iter().map(|item| self.learn(item)).collect();
        Ok((found?.into_iter().filter(|one| !one.is_deleted()).collect(), next))
    }

    /// Caches an item, and updates the engine if it is new.
    fn learn(&self, item: &CatalogItem) -> Result<Arc<Subscription>, Problem> {
        let found = Arc::new(Subscription::of(item)?);
        {
            let mut known = self.known.write().expect("no holder panics");
            if let Some(known) = known.by_id.get(&item.id).filter(|known| known.version >= found.version) {
                return Ok(known.clone());
            }
            known.by_id.insert(item.id.clone(), found.clone());
            known.retell(&found.workspace);
        }
        self.receive_for(&found)?;
        Ok(found)
    }

    /// Registers a subscription as an outbox target. A deleted one stays registered for a while, so
    /// that its waiting deliveries are given up.
    fn receive_for(&self, subscription: &Subscription) -> Result<(), Problem> {
        let retry = RetryPolicy::default().max_attempts(MAX_DELIVERY_ATTEMPTS).max_wait(LONGEST_PAUSE);
        // A little longer than the request itself may take, so that the request's own error is
        // reported.
        let timeout = WEBHOOK_TIMEOUT + WEBHOOK_TIMEOUT / 2;
        let options = TargetOptions { retry, max_concurrent: DELIVERIES_AT_ONCE, timeout };
        let (this, id) = (self.this.clone(), subscription.id.clone());
        let receive = move |delivery: Delivery, body: Box<RawValue>| {
            let (this, id) = (this.clone(), id.clone());
            async move {
                let closing = || Failure::retryable("the server is closing");
                let subscriptions = this.upgrade().ok_or_else(closing)?;
                let subscription = subscriptions.current(&id).await?;
                subscriptions.deliver(&subscription, &delivery, body.get().to_owned()).await
            }
        };
        match self.engine.register_target_with(subscription.target().as_str(), options, receive) {
            Ok(()) | Err(Error::AlreadyRegistered(_)) => Ok(()),
            Err(error) => Err(problem_of(&error)),
        }
    }

    /// The current subscription. A disabled one is read again, because another node may have
    /// enabled it a moment ago.
    async fn current(&self, id: &Name) -> Result<Arc<Subscription>, Failure> {
        let known = self.known.read().expect("no holder panics").by_id.get(id).cloned();
        match known {
            Some(known) if known.not_told().is_none() => Ok(known),
            _ => {
                let read = self.read(id).await.map_err(|problem| Failure::retryable(problem.to_string()))?;
                read.ok_or_else(|| Failure::permanent("there is no such subscription"))
            }
        }
    }

    /// Removes deleted subscriptions from the cache once no delivery waits for them.
    fn forget_buried(&self) {
        let deadline = self.store.now().minus(BURY_DELETED_FOR);
        let mut known = self.known.write().expect("no holder panics");
        known.by_id.retain(|_, one| {
            let is_buried = one.is_deleted() && one.changed_at < deadline;
            if is_buried {
                self.engine.remove_target(one.target().as_str());
            }
            !is_buried
        });
    }
}

#[async_trait]
impl CatalogWatcher for Subscriptions {
    const KIND: CatalogKind = CatalogKind::Subscription;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        self.learn(item).map(drop)
    }

    fn after_read(&self) {
        self.forget_buried();
    }
}

impl KnownSubscriptions {
    /// Rebuilds the list of subscribers of a workspace.
    fn retell(&mut self, workspace: &WorkspaceId) {
        let here = self.by_id.values().filter(|one| one.workspace == *workspace);
        let subscribers = Subscribers::new(here.filter_map(|one| one.subscriber()).collect());
        match subscribers.is_empty() {
            true => self.told.remove(workspace),
            false => self.told.insert(workspace.clone(), subscribers),
        };
    }
}

/// The engine's view of subscribers.
struct SubscriptionAnnouncer(Weak<Subscriptions>);

impl Announcer for SubscriptionAnnouncer {
    fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers {
        let Some(subscriptions) = self.0.upgrade() else { return Subscribers::default() };
        let known = subscriptions.known.read().expect("no holder panics");
        known.told.get(workspace).cloned().unwrap_or_default()
    }

    fn is_reserved(&self, target: &Name) -> bool {
        subscription_of(target).is_some()
    }
}

impl std::fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.known.read().expect("no holder panics").by_id.len();
        f.debug_struct("Subscriptions").field("known", &known).finish_non_exhaustive()
    }
}
