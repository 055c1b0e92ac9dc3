//! Hapax in this program: an engine of its own, or a server.

use std::future::Future;
use std::time::Duration;

use hapax_engine::model::{DoubtRef, Entity, Failure, Payload, Ruling, RunId};
use hapax_engine::runtime::{ActionAnswer, Doubt, StepCall};
use hapax_engine::store::CreateEntityOutcome;
use hapax_engine::{Ctx, Engine, Error};
#[cfg(feature = "remote")]
use hapax_remote::Remote;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::run_handle::RunHandle;
use crate::settled::Settled;
use crate::start::Start;
use crate::take_step::TakeStep;
use crate::{Hapax, WorkflowOptions};

/// Where the runs of this program are.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// In the engine of this program.
    Engine(Engine),
    /// On a server.
    #[cfg(feature = "remote")]
    Server(Remote),
}

/// An entity, and whether this request created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedEntity {
    /// The entity.
    pub entity: Entity,
    /// True if this request created it. False if the same entity existed.
    pub created: bool,
}

/// Everything here works the same, wherever the runs are.
impl Hapax {
    /// Registers a workflow: an async function of a [`Ctx`] and an input. Its due runs are carried out here from now on.
    pub fn register<F, Fut, I, O, E>(&self, name: &str, function: F) -> Result<(), Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.register_with(name, WorkflowOptions::default(), function)
    }

    /// Registers a workflow with options, such as a version. A server decides about starts by itself, so options about
    /// them need an engine.
    pub fn register_with<F, Fut, I, O, E>(
        &self,
        name: &str,
        options: WorkflowOptions,
        function: F,
    ) -> Result<(), Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        match &self.backend {
            Backend::Engine(engine) => engine.register_with(name, options, function),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                remote.register(hapax_engine::remote::RemoteWorkflow::new(name, options, function)?)
            }
        }
    }

    /// Registers the code of an action of entity workflows. After a crash it may run again for the same operation, under
    /// the same key.
    pub fn register_action<F, Fut>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(StepCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ActionAnswer, Failure>> + Send + 'static,
    {
        match &self.backend {
            Backend::Engine(engine) => engine.register_action(name, code),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.register_action(name, code),
        }
    }

    /// Registers the code of a task, which documents on a server call.
    #[cfg(feature = "remote")]
    pub fn register_task<F, Fut, T, E>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(hapax_remote::TaskCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        match &self.backend {
            Backend::Engine(_) => {
                Err(Error::needs_server("a task", "only documents call tasks, and documents are on a server"))
            }
            Backend::Server(remote) => remote.register_task(name, code),
        }
    }

    /// Waits until what was registered is known everywhere: a server then accepts starts of these workflows. Starts wait
    /// for it by themselves.
    pub async fn ready(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Engine(_) => Ok(()),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.ready().await,
        }
    }

    /// Starts a run of the latest version of `workflow`, or of the one that the name carries: `order@2`. Await the returned
    /// [`Start`]. On a server the input is a JSON object.
    pub fn start<I: Serialize + ?Sized>(&self, workflow: &str, input: &I) -> Start {
        Start::new(self.clone(), workflow, Payload::of(input))
    }

    /// Returns a handle to an existing run.
    pub async fn run(&self, run: RunId) -> Result<RunHandle, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(RunHandle::of_engine(engine.run(run).await?)),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                remote.get_status(run).await?;
                Ok(RunHandle::of_server(remote.clone(), run, false))
            }
        }
    }

    /// Sends a signal to a run. The signal is stored until the run waits for it. With an `id`, a repeated signal is stored
    /// once; the call then returns false.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        run: RunId,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        match &self.backend {
            Backend::Engine(engine) => engine.signal(run, name, payload, id).await,
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.signal(run, name, &Payload::of(payload)?, id).await,
        }
    }

    /// Resolves a promise by id. The first settlement wins. Settling it again with the same value succeeds.
    pub async fn resolve_promise<T: Serialize + ?Sized>(
        &self,
        id: &str,
        value: &T,
    ) -> Result<Settled, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine.resolve_promise(id, value).await?.into()),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                Ok(remote.resolve_promise(&format!("id:{id}"), &Payload::of(value)?).await?.into())
            }
        }
    }

    /// Rejects a promise by id. The run that waits for it receives this failure.
    pub async fn reject_promise(&self, id: &str, failure: Failure) -> Result<Settled, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine.reject_promise(id, failure).await?.into()),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => Ok(remote.reject_promise(&format!("id:{id}"), &failure).await?.into()),
        }
    }

    /// Resolves a promise by business key. If no promise has the key yet, the value is kept for it.
    pub async fn resolve_by_key<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
    ) -> Result<Settled, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine.resolve_by_key(key, value).await?.into()),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                Ok(remote.resolve_promise(&format!("key:{key}"), &Payload::of(value)?).await?.into())
            }
        }
    }

    /// Rejects a promise by business key. If no promise has the key yet, the failure is kept in the same way.
    pub async fn reject_by_key(&self, key: &str, failure: Failure) -> Result<Settled, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine.reject_by_key(key, failure).await?.into()),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                Ok(remote.reject_promise(&format!("key:{key}"), &failure).await?.into())
            }
        }
    }

    /// Lists effects in doubt that still need a ruling, oldest first, at most `limit` of them.
    pub async fn list_doubts(&self, limit: usize) -> Result<Vec<Doubt>, Error> {
        match &self.backend {
            Backend::Engine(engine) => {
                let (mut doubts, mut after) = (Vec::new(), None);
                while doubts.len() < limit {
                    let page = engine.list_doubts(after, limit - doubts.len()).await?;
                    doubts.extend(page.doubts);
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                Ok(doubts)
            }
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.list_doubts(limit).await,
        }
    }

    /// Resolves an effect in doubt with a person's ruling, and records it in the audit log. On a server the role of the
    /// credential says what may be decided.
    pub async fn resolve_doubt(&self, doubt: &DoubtRef, ruling: Ruling) -> Result<(), Error> {
        match &self.backend {
            Backend::Engine(engine) => engine.resolve_doubt(doubt, ruling).await,
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.resolve_doubt(doubt, ruling).await,
        }
    }

    /// Creates an entity in the store's own table. An existing entity stays unchanged and is returned.
    pub async fn create_entity<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        status: &str,
        data: &T,
    ) -> Result<CreatedEntity, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(match engine.create_entity(kind, id, status, data).await? {
                CreateEntityOutcome::Created(entity) => CreatedEntity { entity, created: true },
                CreateEntityOutcome::Exists(entity) => CreatedEntity { entity, created: false },
            }),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                let (entity, created) = remote.create_entity(kind, id, status, &Payload::of(data)?).await?;
                Ok(CreatedEntity { entity, created })
            }
        }
    }

    /// Returns an entity.
    pub async fn get_entity(&self, kind: &str, id: &str) -> Result<Entity, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine.get_entity(kind, id, None).await?.entity),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.get_entity(kind, id).await,
        }
    }

    /// Takes step `step` with entity `entity` of type `kind`. Await the returned [`TakeStep`].
    pub fn take_step(&self, kind: &str, entity: &str, step: &str) -> TakeStep {
        TakeStep::new(self.clone(), kind, entity, step)
    }

    /// Shuts down gracefully: takes no new work, lets attempts under way finish for up to `grace`, records their outcomes,
    /// and gives all runs back.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Error> {
        match &self.backend {
            Backend::Engine(engine) => engine.shutdown(grace).await,
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                remote.shutdown(grace).await;
                Ok(())
            }
        }
    }

    /// Stops at once, like a crash. For tests.
    pub fn kill(&self) {
        match &self.backend {
            Backend::Engine(engine) => engine.kill(),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => remote.kill(),
        }
    }

    /// The engine of this program, for what only it can do: lists of runs, steps in transactions of its store, entity
    /// workflows in code.
    pub fn engine(&self) -> Result<&Engine, Error> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine),
            #[cfg(feature = "remote")]
            Backend::Server(remote) => Err(Error::needs_engine(
                "this",
                format!("it was opened with the address of a server, {}", remote.client().server()),
            )),
        }
    }

    /// The engine of this program. See [`Hapax::engine`].
    pub fn into_engine(self) -> Result<Engine, Error> {
        self.engine().cloned()
    }

    /// The client of the server's API, for what only it can do: documents, webhooks, credentials.
    #[cfg(feature = "remote")]
    pub fn server(&self) -> Result<&hapax_api::client::Client, Error> {
        match &self.backend {
            Backend::Server(remote) => Ok(remote.client()),
            Backend::Engine(_) => {
                Err(Error::needs_server("this", "it was opened with a store and has an engine of its own"))
            }
        }
    }
}
