//! Test environment for documents: it records tasks and requests, and returns answers that a test chooses.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hapax_documents::{
    Checked, DeclaredNames, Format, HostServices, HttpAnswer, HttpCall, HttpCaller, HttpFault, Secret,
    Secrets, TaskCall, check, parse_destinations, register,
};
use hapax_engine::model::{RunStatus, StepStatus, WorkspaceId};
use hapax_engine::testing::TestEnvironment;
use hapax_engine::{Failure, RunHandle};
use serde_json::{Value, json};

/// Calls of tasks and requests, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// A task, or the method and URL of a request.
    pub what: String,
    pub given: Value,
    pub key: String,
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Default)]
pub struct World {
    asked: Arc<Mutex<Vec<RecordedCall>>>,
}

type HttpHandler = Arc<dyn Fn(&HttpCall, usize) -> Result<HttpAnswer, HttpFault> + Send + Sync>;
type TaskHandler = Arc<dyn Fn(&TaskCall, usize) -> Result<Value, Failure> + Send + Sync>;

pub fn answer(status: u16, body: Value) -> Result<HttpAnswer, HttpFault> {
    let headers = vec![("content-type".to_string(), "application/json".to_string())];
    Ok(HttpAnswer { status, headers, body: body.to_string().into_bytes() })
}

struct Caller {
    world: World,
    answering: HttpHandler,
}

#[async_trait]
impl HttpCaller for Caller {
    async fn call(&self, _: &WorkspaceId, call: HttpCall) -> Result<HttpAnswer, HttpFault> {
        let what = format!("{} {}", call.method, call.url);
        let given = call
            .body
            .as_ref()
            .map_or(Value::Null, |body| serde_json::from_slice(body).unwrap_or(Value::Null));
        let key = call.headers.iter().find(|(name, _)| name == "Idempotency-Key");
        let key = key.map_or(String::new(), |(_, key)| key.clone());
        let nth = self.world.note(RecordedCall { what, given, key, headers: call.headers.clone() });
        tokio::task::yield_now().await;
        (self.answering)(&call, nth)
    }
}

struct TestSecrets;

#[async_trait]
impl Secrets for TestSecrets {
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Secret, Failure> {
        match name {
            "lost" => Err(Failure::permanent("there is no such secret").with_code("unknown_secret")),
            // The secret shows which workspace asks, except for the default one.
            name if *workspace == WorkspaceId::default() => {
                let secret = Secret::from(format!("s3cr3t-of-{name}"));
                // One secret is bound to its destination.
                Ok(match name {
                    "bound" => secret.bound_to(parse_destinations("https://bank.example/v1").unwrap()),
                    _ => secret,
                })
            }
            name => Ok(format!("s3cr3t-of-{workspace}-{name}").into()),
        }
    }
}

impl World {
    /// Records a call. Returns how often it was made.
    fn note(&self, asked: RecordedCall) -> usize {
        let mut all = self.asked.lock().unwrap();
        let nth = all.iter().filter(|other| other.what == asked.what).count() + 1;
        all.push(asked);
        nth
    }

    pub fn asked(&self) -> Vec<RecordedCall> {
        self.asked.lock().unwrap().clone()
    }

    /// Names of the calls.
    pub fn names(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.what).collect()
    }

    pub fn given(&self, what: &str) -> Value {
        let asked = self.asked();
        let found = asked.iter().find(|asked| asked.what == what);
        found.unwrap_or_else(|| panic!("{what} was not asked: {asked:?}")).given.clone()
    }

    pub fn count(&self, what: &str) -> usize {
        self.names().iter().filter(|name| *name == what).count()
    }

    /// Host services for any document. The handlers receive the number of the call.
    pub fn services(
        &self,
        doing: impl Fn(&TaskCall, usize) -> Result<Value, Failure> + Send + Sync + 'static,
        answering: impl Fn(&HttpCall, usize) -> Result<HttpAnswer, HttpFault> + Send + Sync + 'static,
    ) -> Arc<HostServices> {
        let (world, doing): (World, TaskHandler) = (self.clone(), Arc::new(doing));
        let tasks = move |call: TaskCall| {
            let (what, given, key) = (call.name.clone(), call.input.clone(), call.key.clone());
            let nth = world.note(RecordedCall { what, given, key, headers: Vec::new() });
            let doing = doing.clone();
            async move {
                tokio::task::yield_now().await;
                doing(&call, nth)
            }
        };
        let caller = Caller { world: self.clone(), answering: Arc::new(answering) };
        Arc::new(HostServices::new().other_tasks(tasks).http(Arc::new(caller)).secrets(Arc::new(TestSecrets)))
    }

    /// Host services whose tasks return their input.
    pub fn echo(&self) -> Arc<HostServices> {
        self.services(|call, _| Ok(call.input.clone()), |_, _| answer(200, json!({ "id": "h_1" })))
    }
}

pub fn checked(text: &str) -> Arc<Checked> {
    match check(text, Format::Any, &DeclaredNames::default()) {
        Ok(checked) => Arc::new(checked),
        Err(problems) => {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            panic!("{}", told.join("\n"))
        }
    }
}

/// A document with these steps.
pub fn steps(steps: Value) -> Arc<Checked> {
    checked(&json!({ "name": "tried", "version": 1, "steps": steps }).to_string())
}

/// A started run.
pub struct Running {
    pub lab: TestEnvironment,
    pub run: RunHandle,
    pub document: Arc<Checked>,
    pub services: Arc<HostServices>,
}

impl Running {
    pub async fn start(document: Arc<Checked>, services: Arc<HostServices>, input: Value) -> Self {
        let lab = TestEnvironment::new();
        register(lab.engine(), document.clone(), services.clone()).unwrap();
        let start = lab.engine().start(&document.document().name, &input);
        let run = start.idempotency_key("k").await.unwrap();
        Running { lab, run, document, services }
    }

    pub async fn settle(&self) -> RunStatus {
        self.lab.settle(self.run.id()).await.unwrap()
    }

    /// Runs it to its end and returns its output.
    pub async fn output(&self) -> Value {
        let status = self.settle().await;
        assert_eq!(status, RunStatus::Completed, "{:?}", self.failure().await);
        self.run.result().await.unwrap()
    }

    pub async fn failure(&self) -> Option<Failure> {
        match self.lab.engine().get(self.run.id()).await.unwrap().result {
            Some(hapax_engine::model::RunResult::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    pub async fn failed_with(&self) -> String {
        assert_eq!(self.settle().await, RunStatus::Failed);
        self.failure().await.and_then(|failure| failure.code().map(str::to_string)).unwrap_or_default()
    }

    pub async fn records(&self) -> Vec<(String, StepStatus)> {
        let log = self.lab.engine().get_log(self.run.id()).await.unwrap();
        log.steps.iter().map(|step| (step.id.to_string(), step.state.status())).collect()
    }

    pub async fn status_of(&self, step: &str) -> StepStatus {
        let records = self.records().await;
        let found = records.iter().find(|(name, _)| name == step);
        found.unwrap_or_else(|| panic!("{step} is not on record: {records:?}")).1
    }

    /// Checks that the document can replay its history, and that the store is valid.
    pub async fn check(&self) {
        let log = self.lab.engine().get_log(self.run.id()).await.unwrap();
        let (document, services) = (self.document.clone(), self.services.clone());
        let again =
            move |ctx, input: Value| hapax_documents::run(ctx, document.clone(), input, services.clone());
        hapax_engine::testing::replay(log, again).await.unwrap();
        let report = hapax_engine::fsck::fsck(&*self.lab.engine().store()).await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
    }
}
