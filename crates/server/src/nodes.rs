//! Nodes that other nodes can call. A worker session lives on the node that opened it; any other node forwards its calls.
//!
//! A node that has an address for others publishes it in the catalog, for a while and again and again. The tag of the
//! node, which begins the ids of its sessions, is a digest of that address. A call is forwarded with the credential of
//! its caller, and never a second time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use hapax_api::{Code, Problem};
use hapax_engine::model::{CatalogItem, CatalogKind, Name, Payload, Timestamp, Version, WorkspaceId};
use hapax_engine::store::{PutCatalogItem, PutOutcome, Store};
use hapax_workers::NodeTag;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::answer::Refused;
use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::identity::INSTALLATION;
use crate::limits::{
    ASK_NODES_TIMEOUT, FORWARD_CONNECT_TIMEOUT, FORWARD_TIMEOUT, MAX_FORWARDED_ANSWER_BYTES, MAX_NODES,
    NODE_LIVES_FOR, PUBLISH_NODE_EVERY,
};
use crate::strict_json::{check_headers, read_body};

/// Says which node forwarded a request. Such a request is answered where it arrives.
pub(crate) const FORWARDED_BY: HeaderName = HeaderName::from_static("hapax-forwarded-by");

/// Beginning of the ids of these items. Other settings have other ids.
const ID_PREFIX: &str = "nod_";

/// Headers that go along with a forwarded request.
const TAKEN_ALONG: [HeaderName; 6] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    CONTENT_TYPE,
    CONTENT_ENCODING,
    ACCEPT,
    HeaderName::from_static("traceparent"),
];

/// A published node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PublishedNode {
    url: String,
    /// When others stop to call it, unless it is published again.
    until: i64,
    /// Differs between processes.
    process: String,
}

/// Error of an address for other nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address of a node; give it as http://HOST:PORT or https://HOST:PORT, without a path"
)]
pub struct NotANodeUrl(String);

/// Address at which other nodes reach this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUrl(String);

impl NodeUrl {
    /// Reads it.
    pub fn new(text: &str) -> Result<Self, NotANodeUrl> {
        let refused = || NotANodeUrl(text.to_owned());
        let url = reqwest::Url::parse(text).map_err(|_| refused())?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        if !is_plain || url.as_str().len() > 300 {
            return Err(refused());
        }
        Ok(NodeUrl(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn tag(&self) -> NodeTag {
        let digest = Sha256::digest(&self.0);
        NodeTag::from_bytes(digest[..6].try_into().expect("a digest is longer"))
    }
}

/// A call of another node.
struct Call<'a> {
    method: Method,
    path_and_query: &'a str,
    headers: &'a HeaderMap,
    body: Bytes,
    timeout: Duration,
}

/// Why another node gave no answer.
enum NoAnswer {
    /// Nobody listens at its address.
    Gone,
    /// It did not answer in time, or the connection was cut: it may have done what was asked.
    Unreachable(String),
}

/// The nodes of the installation, as this one knows them.
pub(crate) struct Nodes {
    tag: NodeTag,
    url: Option<NodeUrl>,
    process: String,
    store: Arc<dyn Store>,
    http: reqwest::Client,
    known: RwLock<BTreeMap<NodeTag, PublishedNode>>,
    last_read: LastFullRead,
    /// True once this node stops.
    is_withdrawn: AtomicBool,
}

impl Nodes {
    pub(crate) fn new(store: Arc<dyn Store>, url: Option<NodeUrl>) -> Result<Arc<Self>, Problem> {
        let mut random = [0; 14];
        getrandom::fill(&mut random)
            .map_err(|_| Problem::new(Code::Internal, "The operating system gives no random bytes."))?;
        let own: [u8; 6] = random[..6].try_into().expect("it is longer");
        let tag = url.as_ref().map_or_else(|| NodeTag::from_bytes(own), NodeUrl::tag);
        let process = random[6..].iter().map(|byte| format!("{byte:02x}")).collect();
        let http = client()
            .map_err(|why| Problem::new(Code::Internal, format!("Other nodes cannot be called: {why}.")))?;
        let (known, last_read) = (RwLock::default(), LastFullRead::default());
        let is_withdrawn = AtomicBool::new(false);
        Ok(Arc::new(Nodes { tag, url, process, store, http, known, last_read, is_withdrawn }))
    }

    /// Tag of this node.
    pub(crate) fn tag(&self) -> &NodeTag {
        &self.tag
    }

    /// Publishes this node, for as long as it lives.
    pub(crate) async fn keep_published(this: Weak<Self>, pass: impl Fn() + Send) {
        loop {
            let Some(nodes) = this.upgrade() else { return };
            if nodes.is_withdrawn.load(Ordering::Acquire) {
                return;
            }
            if let Err(problem) = nodes.publish(NODE_LIVES_FOR).await {
                tracing::warn!(%problem, "the address of this node could not be published; trying again");
            }
            drop(nodes);
            pass();
            tokio::time::sleep(PUBLISH_NODE_EVERY).await;
        }
    }

    /// Tells the others that this node stops. A store that does not answer is not waited for long.
    pub(crate) async fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Release);
        let told = timeout(ASK_NODES_TIMEOUT, self.publish(Duration::ZERO)).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::warn!("the other nodes could not be told that this one stops");
        }
    }

    /// Publishes this node for `span`. With no span, others stop to call it.
    async fn publish(&self, span: Duration) -> Result<(), Problem> {
        let Some(url) = &self.url else { return Ok(()) };
        let id = id_of(&self.tag);
        let until = self.store.now().plus(span).as_millis();
        let published = PublishedNode { url: url.0.clone(), until, process: self.process.clone() };
        let found = self.read(&id).await?;
        if let Some((_, other)) = &found
            && other.process != self.process
            && other.until > self.store.now().as_millis()
        {
            tracing::warn!(
                url = url.0,
                "another process published this address a moment ago; `advertise-url` must reach this node alone"
            );
        }
        let request = PutCatalogItem {
            workspace: WorkspaceId::new(INSTALLATION).expect("a valid literal"),
            kind: CatalogKind::Setting,
            name: id.to_string(),
            id,
            body: Payload::of(&published).map_err(|invalid| problem_of_invalid(&invalid))?,
            expected: found.map(|(version, _)| version),
            note: None,
        };
        let catalog = self.store.catalog().expect("looked at when the server was made");
        match catalog.put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(_) => {}
            // Another process wrote it in between. The next round writes it again.
            PutOutcome::Exists(_) | PutOutcome::NameTaken(_) | PutOutcome::Stale(_) | PutOutcome::Missing => {
            }
        }
        Ok(())
    }

    async fn read(&self, id: &Name) -> Result<Option<(Version, PublishedNode)>, Problem> {
        let catalog = self.store.catalog().expect("looked at when the server was made");
        let found =
            catalog.find_item(CatalogKind::Setting, id).await.map_err(|error| problem_of_store(&error))?;
        found.map(|item| Ok((item.version, published_in(&item)?))).transpose()
    }

    fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Address of a node that is alive.
    async fn find(&self, tag: &NodeTag) -> Result<Option<String>, Problem> {
        let now = self.now().as_millis();
        let known = self.known.read().expect("no holder panics").get(tag).cloned();
        if let Some(node) = known.filter(|node| node.until > now) {
            return Ok(Some(node.url));
        }
        // It may have been published a moment ago.
        let Some((_, node)) = self.read(&id_of(tag)).await? else { return Ok(None) };
        let url = (node.until > now).then(|| node.url.clone());
        self.known.write().expect("no holder panics").insert(tag.clone(), node);
        Ok(url)
    }

    /// Addresses of all other nodes that are alive.
    fn others(&self) -> Vec<String> {
        let now = self.now().as_millis();
        let known = self.known.read().expect("no holder panics");
        let alive = known.iter().filter(|(tag, node)| **tag != self.tag && node.until > now);
        alive.map(|(_, node)| node.url.clone()).take(MAX_NODES).collect()
    }

    /// The node that has this session, if it is another one that may be asked.
    pub(crate) fn elsewhere(&self, session: &str, headers: &HeaderMap) -> Option<NodeTag> {
        let may_forward = !headers.contains_key(&FORWARDED_BY) && has_credential(headers);
        NodeTag::of_session(session).filter(|tag| may_forward && *tag != self.tag)
    }

    /// Has the node `tag` answer the request. Its body has at most `max_bytes`.
    pub(crate) async fn forward(
        &self,
        tag: &NodeTag,
        request: Request,
        max_bytes: usize,
    ) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        if parts.method == Method::POST {
            check_headers(&parts.headers)?;
        }
        let body = read_body(body, max_bytes).await?;
        let path_and_query = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let (status, headers, body) =
            self.ask(tag, parts.method, path_and_query, &parts.headers, body).await?;
        let mut response = (status, body).into_response();
        for name in [CONTENT_TYPE, RETRY_AFTER] {
            if let Some(value) = headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }

    /// Has the node `tag` answer a request with these headers.
    pub(crate) async fn ask(
        &self,
        tag: &NodeTag,
        method: Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Problem> {
        let Some(url) = self.find(tag).await? else { return Err(over()) };
        let call = Call { method, path_and_query, headers, body, timeout: FORWARD_TIMEOUT };
        self.send(&url, call).await.map_err(|why| match why {
            NoAnswer::Gone => over(),
            NoAnswer::Unreachable(why) => {
                tracing::warn!(node = %tag, %why, "a node that has a worker session does not answer");
                Problem::new(
                    Code::NodeUnreachable,
                    "The node that has this session does not answer. Send the same request again.",
                )
                .retry_after(1)
            }
        })
    }

    /// Asks all other nodes for their own part. The result lacks nodes that do not answer in time.
    pub(crate) async fn ask_others(
        &self,
        method: Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Vec<Bytes> {
        if headers.contains_key(&FORWARDED_BY) || !has_credential(headers) {
            return Vec::new();
        }
        let asked = self.others().into_iter().map(|url| {
            let call = Call { method: method.clone(), path_and_query, headers, body: body.clone(), timeout };
            async move {
                match self.send(&url, call).await {
                    Ok((status, _, body)) if status.is_success() => Some(body),
                    Ok((status, ..)) => {
                        tracing::warn!(node = url, %status, "another node refused a call");
                        None
                    }
                    Err(NoAnswer::Gone) => None,
                    Err(NoAnswer::Unreachable(why)) => {
                        tracing::warn!(node = url, %why, "another node does not answer");
                        None
                    }
                }
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    async fn send(&self, url: &str, call: Call<'_>) -> Result<(StatusCode, HeaderMap, Bytes), NoAnswer> {
        let Call { method, path_and_query, headers, body, timeout } = call;
        let mut request = self.http.request(method, format!("{url}{path_and_query}")).timeout(timeout);
        for name in &TAKEN_ALONG {
            for value in headers.get_all(name) {
                request = request.header(name, value);
            }
        }
        let by = HeaderValue::from_str(self.tag.as_str()).expect("hex digits");
        let request = request.header(FORWARDED_BY, by).body(body);
        let mut response =
            request.send().await.map_err(|error| match error.is_connect() && !error.is_timeout() {
                true => NoAnswer::Gone,
                false => NoAnswer::Unreachable(error.to_string()),
            })?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut text = BytesMut::new();
        let cut = |error: reqwest::Error| NoAnswer::Unreachable(error.to_string());
        while let Some(piece) = response.chunk().await.map_err(cut)? {
            if text.len() + piece.len() > MAX_FORWARDED_ANSWER_BYTES {
                return Err(NoAnswer::Unreachable("its answer is too large".into()));
            }
            text.extend_from_slice(&piece);
        }
        Ok((status, headers, text.freeze()))
    }
}

/// The client of calls between nodes. It trusts the certificate authorities of the machine.
fn client() -> Result<reqwest::Client, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .user_agent(concat!("hapax-node/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(FORWARD_CONNECT_TIMEOUT)
        .no_proxy()
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| error.to_string())
}

fn has_credential(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || headers.contains_key("x-api-key")
}

fn over() -> Problem {
    Problem::new(
        Code::SessionUnknown,
        "The node that had this session is gone. Open a new one with POST /api/v1/worker-sessions and forget its runs.",
    )
}

fn id_of(tag: &NodeTag) -> Name {
    Name::new("setting id", &format!("{ID_PREFIX}{tag}")).expect("hex digits are a plain word")
}

fn published_in(item: &CatalogItem) -> Result<PublishedNode, Problem> {
    item.body.to().map_err(|error| {
        Problem::new(Code::StoreBroken, format!("The address of a node cannot be read: {error}"))
    })
}

#[async_trait]
impl CatalogWatcher for Nodes {
    const KIND: CatalogKind = CatalogKind::Setting;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        let Some(tag) = item.id.as_str().strip_prefix(ID_PREFIX) else { return Ok(()) };
        // Only what this version writes is a tag.
        let Some(tag) = NodeTag::of_session(&format!("wks_{tag}{:032x}", 0)) else { return Ok(()) };
        let node = published_in(item)?;
        self.known.write().expect("no holder panics").insert(tag, node);
        Ok(())
    }

    /// Forgets nodes that are long gone.
    fn after_read(&self) {
        let gone = self.now().minus(NODE_LIVES_FOR).as_millis();
        self.known.write().expect("no holder panics").retain(|_, node| node.until > gone);
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("tag", &self.tag).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_node_has_a_host_and_nothing_behind_it() {
        let read = |text| NodeUrl::new(text).map(|url| url.0);
        assert_eq!(read("http://10.0.0.7:7171"), Ok("http://10.0.0.7:7171".into()));
        assert_eq!(read("https://node-1.internal/"), Ok("https://node-1.internal".into()));
        for bad in ["", "10.0.0.7:7171", "ftp://a", "http://a/b", "http://a?b", "http://u:p@a", "http://a#b"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_ne!(NodeUrl::new("http://a").unwrap().tag(), NodeUrl::new("http://b").unwrap().tag());
    }
}
