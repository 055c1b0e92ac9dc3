//! Starts runs.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use hapax_engine::Error;
use hapax_engine::model::{Invalid, Payload, Priority};

use crate::Hapax;
use crate::backend::Backend;
use crate::run_handle::RunHandle;

/// Builder for starting a run. Await it to start the run and get its [`RunHandle`].
#[must_use = "a start does nothing until it is awaited"]
#[derive(Debug)]
pub struct Start {
    hapax: Hapax,
    workflow: String,
    version: Option<u32>,
    input: Result<Payload, Invalid>,
    key: Option<String>,
    subject: Option<String>,
    delay: Option<Duration>,
    deadline: Option<Duration>,
    priority: Priority,
}

impl Start {
    pub(crate) fn new(hapax: Hapax, workflow: &str, input: Result<Payload, Invalid>) -> Self {
        Start {
            hapax,
            workflow: workflow.to_owned(),
            version: None,
            input,
            key: None,
            subject: None,
            delay: None,
            deadline: None,
            priority: Priority::Normal,
        }
    }

    /// Sets the version of the workflow; the default is the latest.
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the idempotency key: a second start with this key and the same input returns the same run.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the subject of the run, such as an order number. Only one run of the workflow may be open per subject.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Delays the start.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets a deadline, counted from now. A run that has not ended by then undoes its effects where it can and fails.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the priority among due runs.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    async fn run(self) -> Result<RunHandle, Error> {
        let Start { hapax, workflow, version, input, key, subject, delay, deadline, priority } = self;
        match &hapax.backend {
            Backend::Engine(engine) => {
                let mut start = engine.start_payload(&workflow, input?).priority(priority);
                if let Some(version) = version {
                    start = start.version(version);
                }
                if let Some(key) = key {
                    start = start.idempotency_key(key);
                }
                if let Some(subject) = subject {
                    start = start.subject(subject);
                }
                if let Some(delay) = delay {
                    start = start.delay(delay);
                }
                if let Some(deadline) = deadline {
                    start = start.deadline(deadline);
                }
                Ok(RunHandle::of_engine(start.await?))
            }
            #[cfg(feature = "remote")]
            Backend::Server(remote) => {
                let workflow = match version {
                    Some(version) => format!("{}@{version}", workflow.split('@').next().unwrap_or(&workflow)),
                    None => workflow,
                };
                let start = hapax_remote::RemoteStart {
                    workflow,
                    input: input?,
                    key,
                    subject,
                    delay,
                    deadline,
                    priority,
                };
                let started = remote.start(start).await?;
                Ok(RunHandle::of_server(remote.clone(), started.run, started.created))
            }
        }
    }
}

impl IntoFuture for Start {
    type Output = Result<RunHandle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
