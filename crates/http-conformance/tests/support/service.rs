//! A small in-memory shop that follows the whole contract, and can break any single rule on request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Defect of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    StoresNothing,
    ComparesNothing,
    ComparesBytes,
    ComparesBodyOnly,
    ReplaysOtherBytes,
    ReplaysOtherStatus,
    ReplaysUnmarked,
    MarksFirst,
    RunsReplaysAgain,
    ForgetsFailures,
    ConflictIs409,
    ConflictIsPlain,
    ConflictTellsNothing,
    ConflictRuns,
    TakesQuotesAsPart,
    TakesEmptyKeys,
    TakesLongKeys,
    RefusesLongestKeys,
    CutsKeys,
    TakesAnyCharacter,
    TakesTwoKeys,
    NeedsNoKey,
    RunsConcurrentTwice,
    WaitsForNobody,
    AlwaysWaits,
    NoRetryAfter,
    OneScopeForAll,
    KeysOnGet,
    StoresRefusals,
    TellsNoExpiry,
    ExpiresSoon,
    RunsLateRetries,
    ActsOnHalfRequests,
    ForgetsThoseWhoLeft,
}

#[derive(Clone)]
struct Stored {
    fingerprint: String,
    outcome: watch::Receiver<Option<StoredResponse>>,
}

/// Status, content type, body.
type StoredResponse = (u16, &'static str, String);

struct Shop {
    flaw: Flaw,
    orders: Mutex<Vec<Value>>,
    next: AtomicU64,
    keys: Mutex<HashMap<String, Stored>>,
}

/// Starts the service; it ends with the test's runtime.
pub async fn start(flaw: Flaw) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let shop =
        Arc::new(Shop { flaw, orders: Mutex::default(), next: AtomicU64::new(1), keys: Mutex::default() });
    let router = Router::new().fallback(handle).with_state(shop);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    at
}

async fn handle(State(shop): State<Arc<Shop>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let body = match read(&shop, body).await {
        Some(body) => body,
        None => return problem(400, "bad_request", json!({})),
    };
    if method == Method::GET && shop.flaw != Flaw::KeysOnGet {
        return answer(shop.list(head.uri.query()), &[]);
    }
    let key = match shop.read_key(&head.headers) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let Some(key) = key else {
        if method == Method::GET {
            return answer(shop.list(head.uri.query()), &[]);
        }
        if path == "/orders" && shop.flaw != Flaw::NeedsNoKey {
            return problem(400, "idempotency_key_missing", json!({}));
        }
        return answer(shop.work(&method, &path, head.uri.query(), &body).await, &[]);
    };
    let first_sent = head.headers.get("idempotency-first-sent").and_then(|value| value.to_str().ok());
    let first_sent = first_sent.and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
    let window = SignedDuration::from_hours(24);
    if first_sent.is_some_and(|sent| Timestamp::now() - window > sent) && shop.flaw != Flaw::RunsLateRetries {
        return problem(412, "idempotency_window_passed", json!({}));
    }
    if shop.refuses(&path, &body) && shop.flaw != Flaw::StoresRefusals {
        return problem(422, "invalid_body", json!({}));
    }
    shop.once(&head.headers, key, method, path, head.uri.query().map(str::to_owned), body).await
}

async fn read(shop: &Shop, body: Body) -> Option<Bytes> {
    let mut stream = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => whole.extend_from_slice(&chunk),
            Err(_) if shop.flaw == Flaw::ActsOnHalfRequests => {
                // The reference is the last field of the body, so the missing part is made up.
                let text = String::from_utf8_lossy(&whole).into_owned();
                shop.record(json!({ "ref": text }));
                return None;
            }
            Err(_) => return None,
        }
    }
    Some(whole.into())
}

impl Shop {
    fn read_key(&self, headers: &HeaderMap) -> Result<Option<String>, Box<Response>> {
        let refused = || Box::new(problem(400, "invalid_idempotency_key", json!({})));
        let given: Vec<_> = headers.get_all("idempotency-key").iter().collect();
        let Some(value) = given.first() else { return Ok(None) };
        if given.len() > 1 && self.flaw != Flaw::TakesTwoKeys {
            return Err(refused());
        }
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let unquoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let mut key = match unquoted {
            Some(inner) if self.flaw != Flaw::TakesQuotesAsPart => inner.to_owned(),
            _ => text.clone(),
        };
        if self.flaw == Flaw::CutsKeys {
            key.truncate(64);
            return Ok(Some(key));
        }
        let longest = if self.flaw == Flaw::RefusesLongestKeys { 254 } else { 255 };
        let is_printable = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let is_refused = (key.is_empty() && self.flaw != Flaw::TakesEmptyKeys)
            || (key.len() > longest && self.flaw != Flaw::TakesLongKeys)
            || (!is_printable && self.flaw != Flaw::TakesAnyCharacter);
        match is_refused {
            true => Err(refused()),
            false => Ok(Some(key)),
        }
    }

    fn refuses(&self, path: &str, body: &[u8]) -> bool {
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        path == "/orders" && !body["amount"].is_u64()
    }

    async fn once(
        self: &Arc<Self>,
        headers: &HeaderMap,
        key: String,
        method: Method,
        path: String,
        query: Option<String>,
        body: Bytes,
    ) -> Response {
        let who =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let who = if self.flaw == Flaw::OneScopeForAll { "" } else { who };
        let name = format!("{who}\n{key}");
        let print = self.fingerprint(&method, &path, &body);
        let (sender, receiver) = watch::channel(None);
        let found = {
            let mut keys = self.keys.lock().unwrap();
            let found = keys.get(&name).cloned();
            let found = found.filter(|stored| match self.flaw {
                Flaw::StoresNothing => false,
                Flaw::RunsConcurrentTwice => stored.outcome.borrow().is_some(),
                Flaw::ForgetsFailures => stored.outcome.borrow().as_ref().is_none_or(|kept| kept.0 < 500),
                _ => true,
            });
            if found.is_none() {
                keys.insert(name.clone(), Stored { fingerprint: print.clone(), outcome: receiver.clone() });
            }
            found
        };
        if let Some(stored) = found {
            return self.again(headers, stored, &print, &method, &path, &body).await;
        }
        let work = {
            let shop = self.clone();
            let left = LeftBehind { shop: self.clone(), name, armed: self.flaw == Flaw::ForgetsThoseWhoLeft };
            async move {
                let mut left = left;
                let kept = shop.work(&method, &path, query.as_deref(), &body).await;
                let _ = sender.send(Some(kept.clone()));
                left.armed = false;
                kept
            }
        };
        let kept = match self.flaw {
            // This runs in the handler itself, which ends when the client disconnects.
            Flaw::ForgetsThoseWhoLeft => work.await,
            _ => tokio::spawn(work).await.unwrap(),
        };
        let marks: &[(&str, &str)] =
            if self.flaw == Flaw::MarksFirst { &[("idempotency-replayed", "true")] } else { &[] };
        answer(kept, marks)
    }

    async fn again(
        &self,
        headers: &HeaderMap,
        mut stored: Stored,
        print: &str,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Response {
        if stored.fingerprint != print {
            if self.flaw == Flaw::ConflictRuns {
                self.work(method, path, None, body).await;
            }
            let summary = json!({ "kind": "order", "fingerprint": stored.fingerprint });
            return match self.flaw {
                Flaw::ConflictIs409 => {
                    problem(409, "idempotency_key_conflict", json!({ "storedRequest": summary }))
                }
                Flaw::ConflictIsPlain => {
                    let text = json!({ "error": "conflict", "storedRequest": summary }).to_string();
                    answer((422, "application/json", text), &[])
                }
                Flaw::ConflictTellsNothing => problem(422, "idempotency_key_conflict", json!({})),
                _ => problem(422, "idempotency_key_conflict", json!({ "storedRequest": summary })),
            };
        }
        let prefers = headers.get("prefer").and_then(|value| value.to_str().ok()) == Some("wait=0");
        let is_impatient = (prefers && self.flaw != Flaw::AlwaysWaits) || self.flaw == Flaw::WaitsForNobody;
        if stored.outcome.borrow().is_none() && is_impatient {
            let mut response = problem(409, "request_in_progress", json!({}));
            if self.flaw != Flaw::NoRetryAfter {
                response.headers_mut().insert("retry-after", 1.into());
            }
            return response;
        }
        let (mut status, kind, mut text) = match stored.outcome.wait_for(Option::is_some).await {
            Ok(kept) => kept.clone().expect("waited for"),
            Err(_) => return problem(503, "lost", json!({})),
        };
        match self.flaw {
            Flaw::RunsReplaysAgain => drop(self.work(method, path, None, body).await),
            Flaw::ReplaysOtherBytes => text.push('\n'),
            Flaw::ReplaysOtherStatus if status == 201 => status = 200,
            _ => {}
        }
        let hours = if self.flaw == Flaw::ExpiresSoon { 1 } else { 24 };
        let expires = Timestamp::now() + SignedDuration::from_hours(hours);
        let expires = DateTimePrinter::new().timestamp_to_rfc9110_string(&expires).unwrap();
        let mut marks: Vec<(&str, &str)> = Vec::new();
        if self.flaw != Flaw::ReplaysUnmarked {
            marks.push(("idempotency-replayed", "true"));
        }
        if self.flaw != Flaw::TellsNoExpiry {
            marks.push(("idempotency-expires", &expires));
        }
        answer((status, kind, text), &marks)
    }

    fn fingerprint(&self, method: &Method, path: &str, body: &[u8]) -> String {
        // Serialised values have sorted fields, so serialising again is canonical enough here.
        let canonical =
            serde_json::from_slice::<Value>(body).map(|body| body.to_string()).unwrap_or_default();
        match self.flaw {
            Flaw::ComparesNothing => String::new(),
            Flaw::ComparesBytes => format!("{method} {path} {}", String::from_utf8_lossy(body)),
            Flaw::ComparesBodyOnly => canonical,
            _ => format!("{method} {path} {canonical}"),
        }
    }

    /// Performs the effect.
    async fn work(&self, method: &Method, path: &str, query: Option<&str>, body: &[u8]) -> StoredResponse {
        let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        if method == Method::GET {
            return self.list(query);
        }
        if self.refuses(path, body.to_string().as_bytes()) {
            return (422, "application/problem+json", json!({ "code": "invalid_body" }).to_string());
        }
        if path == "/failing" {
            return (503, "application/problem+json", json!({ "code": "provider_down" }).to_string());
        }
        let id = self.record(body);
        // The effect takes time, so that duplicates and disconnects arrive while it runs.
        let takes = if path == "/slow" { 400 } else { 20 };
        tokio::time::sleep(Duration::from_millis(takes)).await;
        (201, "application/json", json!({ "id": id }).to_string())
    }

    fn record(&self, order: Value) -> u64 {
        self.orders.lock().unwrap().push(order);
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn list(&self, query: Option<&str>) -> StoredResponse {
        let wanted = query.and_then(|query| query.strip_prefix("ref=")).unwrap_or_default();
        let orders = self.orders.lock().unwrap();
        let items: Vec<&Value> = orders
            .iter()
            .filter(|order| order["ref"].as_str().is_some_and(|own| own.contains(wanted)))
            .collect();
        (200, "application/json", json!({ "items": items }).to_string())
    }
}

/// Forgets a key when its handler is dropped before it finishes, as in services that work in the handler.
struct LeftBehind {
    shop: Arc<Shop>,
    name: String,
    armed: bool,
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        if self.armed {
            self.shop.keys.lock().unwrap().remove(&self.name);
        }
    }
}

fn answer((status, kind, text): StoredResponse, marks: &[(&str, &str)]) -> Response {
    let mut response = Response::builder().status(status).header("content-type", kind);
    for (name, value) in marks {
        response = response.header(*name, *value);
    }
    response.body(Body::from(text)).unwrap()
}

fn problem(status: u16, code: &str, mut more: Value) -> Response {
    more["code"] = code.into();
    more["status"] = status.into();
    more["title"] = StatusCode::from_u16(status).unwrap().canonical_reason().into();
    answer((status, "application/problem+json", more.to_string()), &[])
}
