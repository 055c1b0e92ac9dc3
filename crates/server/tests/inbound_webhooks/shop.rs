//! A server with sources, secrets and an order workflow that waits for its payment, and a way to send it webhooks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hapax_documents::{HostServices, Secret, Secrets};
use hapax_engine::clock::ManualClock;
use hapax_engine::model::{Timestamp, WorkspaceId};
use hapax_engine::{Ctx, Engine, Failure};
use serde_json::{Value, json};

use super::signing::{SECRETS, STRIPE, Webhook, stripe};
use super::support::{Answer, PlannedStore, Setup, TestServer};

pub const SOURCES: &str = "/api/v1/webhook-sources";
pub const EVENTS: &str = "/api/v1/webhook-events";
/// The example of the documents.
pub const STRIPE_SOURCE: &str = include_str!("../../../documents/examples/sources/stripe.yaml");

/// Secrets that a test knows, all of them of `acme`.
pub struct TestSecrets {
    secrets: BTreeMap<String, String>,
    /// Why a secret cannot be read now, by its name.
    troubles: Mutex<BTreeMap<String, Failure>>,
}

impl TestSecrets {
    pub fn full() -> Arc<Self> {
        let secrets = SECRETS.iter().map(|(name, secret)| (name.to_string(), secret.to_string()));
        Arc::new(TestSecrets { secrets: secrets.collect(), troubles: Mutex::default() })
    }

    /// Makes this secret unreadable from now on.
    pub fn jam(&self, name: &str, why: Failure) {
        self.troubles.lock().unwrap().insert(name.into(), why);
    }

    pub fn mend(&self) {
        self.troubles.lock().unwrap().clear();
    }
}

#[async_trait]
impl Secrets for TestSecrets {
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Secret, Failure> {
        if let Some(why) = self.troubles.lock().unwrap().get(name) {
            return Err(why.clone());
        }
        let found = self.secrets.get(name).filter(|_| *workspace == acme()).cloned();
        found.map(Secret::from).ok_or_else(|| Failure::permanent(format!("there is no secret {name:?}")))
    }
}

/// Host services of a shop; `packed` counts how often a parcel was packed.
pub fn services(packed: &Arc<AtomicUsize>) -> HostServices {
    services_with(packed, TestSecrets::full())
}

/// The same, with a safe that the test may jam.
pub fn services_with(packed: &Arc<AtomicUsize>, safe: Arc<TestSecrets>) -> HostServices {
    let packed = packed.clone();
    HostServices::new().secrets(safe).task("pack", move |call| {
        packed.fetch_add(1, Ordering::SeqCst);
        async move { Ok(call.input) }
    })
}

/// A server that can be sent webhooks.
pub struct Shop {
    pub server: TestServer,
    pub clock: Arc<ManualClock>,
    /// How often a parcel was packed: the effect that must happen once.
    pub packed: Arc<AtomicUsize>,
}

impl Shop {
    pub async fn open() -> Self {
        let (packed, clock) = (Arc::default(), Arc::new(ManualClock::default()));
        let setup = Setup { services: services(&packed), clock: clock.clone(), ..Setup::default() };
        let server = TestServer::memory_with(setup).await;
        Shop { server, clock, packed }.set_up().await
    }

    /// With a safe that the test may jam.
    pub async fn with_safe() -> (Self, Arc<TestSecrets>) {
        let (packed, clock, safe) = (Arc::default(), Arc::new(ManualClock::default()), TestSecrets::full());
        let setup = Setup {
            services: services_with(&packed, safe.clone()),
            clock: clock.clone(),
            ..Setup::default()
        };
        let server = TestServer::memory_with(setup).await;
        (Shop { server, clock, packed }.set_up().await, safe)
    }

    /// On a store that loses what the test wants lost.
    pub async fn planned() -> (Self, Arc<PlannedStore>) {
        let (packed, clock) = (Arc::default(), Arc::new(ManualClock::default()));
        let setup = Setup { services: services(&packed), clock: clock.clone(), ..Setup::default() };
        let (server, store) = TestServer::planned_with(setup).await;
        (Shop { server, clock, packed }.set_up().await, store)
    }

    async fn set_up(self) -> Self {
        order_workflow(&self.server.engine, &self.packed);
        self
    }

    pub fn now(&self) -> Timestamp {
        self.server.store.now()
    }

    pub fn packed(&self) -> usize {
        self.packed.load(Ordering::SeqCst)
    }

    /// Uploads a source in YAML; answers its path.
    pub async fn source(&self, yaml: &str) -> String {
        upload(&self.server, yaml).await
    }

    pub async fn send(&self, path: &str, webhook: &Webhook) -> Answer {
        send(&self.server, path, webhook).await
    }

    /// Events as they are listed.
    pub async fn events(&self) -> Vec<Value> {
        events(&self.server).await
    }

    /// Starts an order that waits for the payment of `charge`.
    pub async fn order(&self, charge: &str) -> hapax_engine::RunHandle {
        order(&self.server.engine, charge).await
    }

    /// A payment of `charge`, signed now.
    pub fn paid(&self, event: &str, charge: &str) -> Webhook {
        stripe(&payment(event, charge), STRIPE, self.now())
    }
}

/// Stripe's event for a successful charge.
pub fn payment(event: &str, charge: &str) -> Value {
    json!({ "id": event, "type": "charge.succeeded", "data": { "object": { "id": charge, "amount": 4200 } } })
}

/// An order waits for the payment of its charge, and is packed then.
pub fn order_workflow(engine: &Engine, packed: &Arc<AtomicUsize>) {
    let packed = packed.clone();
    let order = move |ctx: Ctx, input: Value| {
        let packed = packed.clone();
        async move {
            let charge = input["charge"].as_str().unwrap_or_default().to_owned();
            let key = format!("stripe:{charge}");
            let paid: Value = ctx.create_promise("payment").with_idempotency_key(key).await?;
            ctx.step("pack", |_| {
                packed.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, Failure>(()) }
            })
            .await?;
            Ok::<_, Failure>(paid["amount"].clone())
        }
    };
    engine.workspace(acme()).register_for_workspace("order", Default::default(), order).unwrap();
}

pub fn acme() -> WorkspaceId {
    WorkspaceId::new("acme").unwrap()
}

pub async fn order(engine: &Engine, charge: &str) -> hapax_engine::RunHandle {
    engine.workspace(acme()).start("order", &json!({ "charge": charge })).await.unwrap()
}

pub async fn upload(server: &TestServer, yaml: &str) -> String {
    let yaml_type = [("content-type", "application/yaml")];
    let made = server.send("POST", SOURCES, Some(yaml.into()), &server.admin, &yaml_type).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["path"].as_str().unwrap().to_owned()
}

pub async fn send(server: &TestServer, path: &str, webhook: &Webhook) -> Answer {
    send_by(server, &server.http, path, webhook).await
}

pub async fn send_by(server: &TestServer, client: &reqwest::Client, path: &str, webhook: &Webhook) -> Answer {
    let mut request = client.post(format!("{}{path}", server.url)).body(webhook.body.clone());
    request = request.header("content-type", "application/json");
    for (name, value) in &webhook.headers {
        request = request.header(*name, value);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, bytes: response.bytes().await.unwrap().to_vec() }
}

pub async fn events(server: &TestServer) -> Vec<Value> {
    let listed = server.get(&format!("{EVENTS}?limit=200")).await;
    assert_eq!(listed.status, 200, "{}", listed.text());
    listed.json()["items"].as_array().unwrap().clone()
}

/// Status and content of the receipt.
pub fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["status"].as_str().unwrap_or_default().to_owned())
}
