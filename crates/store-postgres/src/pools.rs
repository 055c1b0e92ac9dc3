//! Connections by purpose, so that a flood of one kind of call never keeps another waiting.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::Config;

use crate::connect::{Address, CHECK_CLIENT, FORGET_PLANS, place};
use crate::connection_cap::CappedConnect;
use crate::fault::{Fault, describe};
use crate::limits::{
    CONNECT_TIMEOUT, DELIVERY_CONNECTIONS, FORGET_PLANS_EVERY, MAINTENANCE_CONNECTIONS, RECONNECT_PAUSE,
    RENEWAL_CONNECTIONS,
};
use crate::link::Link;
use crate::options::PostgresOptions;
use crate::settings::{Setting, apply};

/// The connections of a node.
#[derive(Debug)]
pub(crate) struct Pools {
    /// For group commits.
    pub(crate) commits: Connections,
    /// For operations that read before they write.
    pub(crate) rmw_lane: Connections,
    /// For requests under their keys.
    pub(crate) requests: Connections,
    /// For operations on entities, which may have to wait for user code that holds a row.
    pub(crate) entities: Connections,
    pub(crate) reads: Connections,
    /// Reserved: a node that cannot renew its leases loses its runs.
    pub(crate) renewals: Connections,
    /// Reserved for claims, purges and hints.
    pub(crate) maintenance: Connections,
    /// For after-effects, which may be many at once; opened when needed.
    pub(crate) deliveries: Connections,
    /// For user code in the store's transaction; each is reset before the next use.
    pub(crate) works: Connections,
}

impl Pools {
    pub(crate) fn new(address: &Address, options: &PostgresOptions) -> Self {
        let Address { config, work_config, settings, tls, cap } = address;
        let connections = |config, size, settings: &[Setting], recycling| {
            let connect = CappedConnect { tls: tls.clone(), cap: cap.clone() };
            Connections::new(config, connect, size, options.deadline, settings, recycling)
        };
        let pool = |size| connections(config, size, settings.for_own(), RecyclingMethod::Fast);
        Pools {
            commits: pool(options.committers),
            rmw_lane: pool(options.committers),
            requests: pool(options.committers),
            entities: pool(options.committers),
            reads: pool(options.readers),
            renewals: pool(RENEWAL_CONNECTIONS),
            maintenance: pool(MAINTENANCE_CONNECTIONS),
            deliveries: pool(DELIVERY_CONNECTIONS),
            works: connections(
                work_config,
                options.transactions,
                settings.for_work(),
                RecyclingMethod::Clean,
            ),
        }
    }

    /// Closes them all; calls in progress keep theirs until they end.
    pub(crate) fn close(&self) {
        let Pools { commits, rmw_lane, requests, entities, reads, renewals, maintenance, deliveries, works } =
            self;
        for connections in
            [commits, rmw_lane, requests, entities, reads, renewals, maintenance, deliveries, works]
        {
            connections.pool.close();
        }
    }
}

/// A few connections for one purpose.
#[derive(Debug)]
pub(crate) struct Connections {
    pool: Pool,
    place: String,
    deadline: Duration,
    /// Time and cause of the last failed connection.
    failed: Mutex<Option<(Instant, String)>>,
}

impl Connections {
    fn new(
        config: &Config,
        connect: CappedConnect,
        size: usize,
        deadline: Duration,
        settings: &[Setting],
        recycling_method: RecyclingMethod,
    ) -> Self {
        let how = ManagerConfig { recycling_method };
        let settings: Arc<[Setting]> = settings.into();
        // Cleaning a connection resets its settings.
        let is_reset = matches!(how.recycling_method, RecyclingMethod::Clean);
        let again = settings.clone();
        let begin = Hook::async_fn(move |client, _| {
            let settings = settings.clone();
            Box::pin(async move {
                apply(client, &settings).await.map_err(HookError::Backend)?;
                match client.batch_execute(CHECK_CLIENT).await {
                    Err(error) if error.as_db_error().is_none() => Err(HookError::Backend(error)),
                    // Not every server supports it.
                    _ => Ok(()),
                }
            })
        });
        let forget_plans = Hook::async_fn(|client, used| {
            Box::pin(async move {
                let round =
                    |at: Instant| at.duration_since(used.created).as_secs() / FORGET_PLANS_EVERY.as_secs();
                let last = used.recycled.unwrap_or(used.created);
                if round(Instant::now()) > round(last) {
                    client.batch_execute(FORGET_PLANS).await.map_err(HookError::Backend)?;
                }
                Ok(())
            })
        });
        let begin_again = Hook::async_fn(move |client, _| {
            let settings = again.clone();
            Box::pin(async move {
                match is_reset {
                    true => apply(client, &settings).await.map_err(HookError::Backend),
                    false => Ok(()),
                }
            })
        });
        let manager = Manager::from_connect(config.clone(), connect, how);
        let pool = Pool::builder(manager)
            .max_size(size)
            .wait_timeout(Some(deadline))
            .create_timeout(Some(CONNECT_TIMEOUT.min(deadline)))
            .recycle_timeout(Some(CONNECT_TIMEOUT.min(deadline)))
            .post_create(begin)
            .pre_recycle(forget_plans)
            .post_recycle(begin_again)
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a pool with a runtime can have timeouts");
        Connections { pool, place: place(config), deadline, failed: Mutex::new(None) }
    }

    /// Longest time of a call.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A connection; an error means that nothing was sent.
    pub(crate) async fn get(&self) -> Result<HeldConnection, Fault> {
        if let Some(why) = self.failed_just_now() {
            return Err(Fault::NotSent(why));
        }
        match self.pool.get().await {
            Ok(object) => Ok(HeldConnection(Some(object))),
            Err(error) => {
                let is_down = !matches!(error, PoolError::Timeout(deadpool_postgres::TimeoutType::Wait));
                let why = format!("no connection to {}: {}", self.place, explain(&error));
                if is_down {
                    *self.failed.lock().expect("no holder panics") = Some((Instant::now(), why.clone()));
                }
                Err(Fault::NotSent(why))
            }
        }
    }

    fn failed_just_now(&self) -> Option<String> {
        let mut failed = self.failed.lock().expect("no holder panics");
        match &*failed {
            Some((at, why)) if at.elapsed() < RECONNECT_PAUSE => Some(why.clone()),
            _ => {
                *failed = None;
                None
            }
        }
    }

    /// Runs `work` on a connection in a task of its own, so that the caller may stop waiting at any
    /// moment. A response after the deadline costs the connection, and so does every error.
    pub(crate) async fn run<T, F>(
        &self,
        deadline: Duration,
        work: impl FnOnce(Arc<HeldConnection>) -> F,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let held = Arc::new(self.get().await?);
        let working = work(held.clone());
        let done = tokio::spawn(async move {
            let answer = tokio::time::timeout(deadline, working).await;
            let answer = answer.unwrap_or(Err(Fault::OutOfTime(deadline)))?;
            if let Some(held) = Arc::into_inner(held) {
                held.give_back();
            }
            Ok(answer)
        });
        done.await.unwrap_or_else(|_| Err(Fault::Broken("the store failed on this request".into())))
    }
}

/// A connection in use. Dropping it closes the connection and ends its server process; only
/// [`HeldConnection::give_back`] keeps it. So a call that panics, fails half way or runs out of
/// time never leaves a transaction behind.
#[derive(Debug)]
pub(crate) struct HeldConnection(Option<Object>);

impl HeldConnection {
    /// The executor for its statements.
    pub(crate) fn link(&self) -> Link<'_> {
        Link::Own(self)
    }

    /// Returns the connection to the pool.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl std::ops::Deref for HeldConnection {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0.as_ref().expect("only give_back and drop take it")
    }
}

impl std::ops::DerefMut for HeldConnection {
    fn deref_mut(&mut self) -> &mut Object {
        self.0.as_mut().expect("only give_back and drop take it")
    }
}

impl Drop for HeldConnection {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            // Ends the task behind the connection, and with it the socket.
            drop(Object::take(object));
        }
    }
}

fn explain(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) => describe(error),
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
            "all are busy; the database is slow or asked too much".into()
        }
        PoolError::Timeout(_) => "the server did not answer in time".into(),
        PoolError::Closed => "the store is closed".into(),
        PoolError::NoRuntimeSpecified => "there is no runtime".into(),
        PoolError::PostCreateHook(error) => error.to_string(),
    }
}
