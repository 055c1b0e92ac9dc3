//! Workflows whose runs are on a server.

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::model::{Failure, WorkflowRef};
use crate::runtime::{Error, Workflow, WorkflowOptions};

/// The code of a workflow whose runs are on a server. Cheap to clone.
#[derive(Clone)]
pub struct RemoteWorkflow(pub(super) Arc<Workflow>);

impl RemoteWorkflow {
    /// Takes an async function of a [`Ctx`] and an input. Options about starts are the server's; they are refused.
    pub fn new<F, Fut, I, O, E>(name: &str, options: WorkflowOptions, function: F) -> Result<Self, Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        if let Some(option) = options.decided_at_start() {
            return Err(Error::needs_engine(
                option,
                "the server decides about starts, and does not know the options of a program's workflows",
            ));
        }
        Workflow::new(name, options, function).map(|workflow| RemoteWorkflow(Arc::new(workflow)))
    }

    /// Name and version.
    pub fn reference(&self) -> &WorkflowRef {
        &self.0.reference
    }
}

impl std::fmt::Debug for RemoteWorkflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RemoteWorkflow").field(self.reference()).finish()
    }
}
