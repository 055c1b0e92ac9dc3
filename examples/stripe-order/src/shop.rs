//! The shop: a Hapax server with an order workflow in code, and a webhook source as a document.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use hapax::{Actor, Ctx, EngineOptions, Failure, Hapax, RetryPolicy, Role as Rank, WorkspaceId};
use hapax_api::Role;
use hapax_documents::{HostServices, Secret, Secrets};
use hapax_outgoing::{Outgoing, Rules};
use hapax_server::directory::NewCredential;
use hapax_server::drain::{Drain, drain};
use hapax_server::listen::ListenOptions;
use hapax_server::{Server, ServerOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stripe::{SECRET, Stripe, ask_for_charge};

const WORKSPACE: &str = "shop";

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
}

/// How often each order was shipped.
type Shipped = Arc<Mutex<BTreeMap<String, usize>>>;

/// Secrets are named by documents and known to the server alone.
struct ShopSecrets;

#[async_trait]
impl Secrets for ShopSecrets {
    async fn get_secret(&self, workspace: &WorkspaceId, name: &str) -> Result<Secret, Failure> {
        match (workspace.as_str(), name) {
            (WORKSPACE, "stripe-webhook") => Ok(SECRET.to_owned().into()),
            _ => Err(Failure::permanent(format!("there is no secret {name:?}"))),
        }
    }
}

pub(crate) struct Shop {
    pub(crate) url: String,
    hapax: Hapax,
    shipped: Shipped,
    admin: String,
    _drain: Drain,
    _folder: tempfile::TempDir,
}

impl Shop {
    /// Opens the shop on a SQLite file, and serves it.
    pub(crate) async fn open(stripe: &Stripe) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = format!("sqlite:{}", folder.path().join("shop.db").display());
        let options = EngineOptions { poll_every: Duration::from_millis(100), ..EngineOptions::default() };
        let hapax = Hapax::builder(&store).options(options).open().await?;
        let shipped = Shipped::default();
        register_order(&hapax, stripe.url.clone(), shipped.clone())?;
        let (drain, draining) = drain();
        let options = ServerOptions {
            keys: Default::default(),
            draining,
            grace: Duration::from_secs(5),
            outgoing: Outgoing::new(Rules::default())?.into(),
            requests_per_second: None,
            max_definitions: hapax_server::limits::MAX_DEFINITIONS,
            people: None,
            longest_credential_life: None,
            advertise_url: None,
            console: true,
            settings: Vec::new(),
            action_origins: Default::default(),
            max_definitions_per_workspace: hapax_server::limits::MAX_DEFINITIONS_PER_WORKSPACE,
            sealing_keys: Vec::new(),
            modules: Vec::new(),
            entity_tables: Default::default(),
        };
        let services = HostServices::new().secrets(Arc::new(ShopSecrets));
        let server = Server::launch(hapax.engine()?.clone(), services, options).await?;
        let admin = admin_key(&server).await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { server.serve(listener, ListenOptions::default()).await });
        Ok(Shop { url, hapax, shipped, admin, _drain: drain, _folder: folder })
    }

    /// Uploads the source over HTTP; answers where its webhooks go.
    pub(crate) async fn upload_source(&self, yaml: &str) -> Result<String> {
        let request = reqwest::Client::new().post(format!("{}/api/v1/webhook-sources", self.url));
        let request = request.bearer_auth(&self.admin).header("content-type", "application/yaml");
        let answer = request.body(yaml.to_owned()).send().await?;
        let (status, told): (_, Value) = (answer.status(), answer.json().await?);
        ensure!(status == 201, "the source was refused: {told}");
        told["path"].as_str().map(str::to_owned).context("a source has a path")
    }

    /// Takes orders, all at once, and waits for them; answers how many completed.
    pub(crate) async fn process_orders(&self, count: usize) -> Result<usize> {
        let engine = self.hapax.engine()?.workspace(WorkspaceId::new(WORKSPACE)?);
        let orders = (0..count).map(|number| {
            let engine = &engine;
            async move {
                let order = Order { id: format!("order-{number}") };
                engine
                    .start("order", &order)
                    .idempotency_key(order.id.clone())
                    .await?
                    .result::<String>()
                    .await
            }
        });
        Ok(try_join_all(orders).await?.len())
    }

    pub(crate) fn shipped(&self) -> BTreeMap<String, usize> {
        self.shipped.lock().expect("no holder panics").clone()
    }

    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.hapax.shutdown(hapax::seconds(5)).await?)
    }
}

/// An order charges the card, waits for Stripe to say that the money is there, and ships.
async fn process_order(ctx: Ctx, order: Order, providers: Providers) -> Result<String, Failure> {
    let charge: String = ctx
        .step("charge", |attempt| providers.charge(order.id.clone(), attempt.idempotency_key().to_string()))
        .retry(RetryPolicy::default().first_wait(Duration::from_millis(20)))
        .await?;
    // The webhook may have come already: then it was kept, and the promise is settled as it is made.
    let key = format!("stripe:{charge}");
    let _paid: Value =
        ctx.create_promise("payment").with_idempotency_key(key).timeout(hapax::minutes(5)).await?;
    ctx.step("ship", |_| providers.ship(order.id.clone())).await?;
    Ok(charge)
}

/// Services that an order uses.
#[derive(Clone)]
struct Providers {
    http: reqwest::Client,
    stripe: String,
    shipped: Shipped,
}

impl Providers {
    async fn charge(&self, order: String, key: String) -> Result<String, Failure> {
        // A failed call may have charged the card. Repeating it under the same key is safe.
        let asked = ask_for_charge(&self.http, &self.stripe, &key, &order).await;
        asked.map_err(|error| Failure::unknown(error.to_string()))
    }

    async fn ship(&self, order: String) -> Result<(), Failure> {
        *self.shipped.lock().expect("no holder panics").entry(order).or_default() += 1;
        Ok(())
    }
}

fn register_order(hapax: &Hapax, stripe: String, shipped: Shipped) -> Result<()> {
    let providers = Providers { http: reqwest::Client::new(), stripe, shipped };
    Ok(hapax.register("order", move |ctx, order: Order| process_order(ctx, order, providers.clone()))?)
}

async fn admin_key(server: &Server) -> Result<String> {
    let workspace = WorkspaceId::new(WORKSPACE)?;
    let by = Actor::new("example", Rank::Manager);
    server.directory().ensure_workspace(&workspace, None, by.clone()).await?;
    let new = NewCredential::new("example", Role::Admin);
    Ok(server.directory().create_credential(&workspace, new, by).await?.1.reveal().to_owned())
}
