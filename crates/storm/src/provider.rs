//! The provider: it takes effects over HTTP, misbehaves by plan, and writes down everything it did.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::{header_of, split_head};
use crate::limits::{
    MAX_CONNECTIONS, MAX_RECORDED, MAX_REQUEST_BYTES, MOST_LATE, PROVIDER_WORKS, STEP_TIMEOUT,
};

/// How often the provider looks whether it gets its turn in time.
const TICK: Duration = Duration::from_millis(50);
/// How long requests are turned away after it did not.
const LATE_FOR: Duration = Duration::from_secs(1);

/// How one request is treated.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    /// The effect happens, and is answered after a while.
    Answer { after: Duration },
    /// The effect happens after a while, and is answered at once then. Until then a lookup finds nothing.
    WorkFirst { work: Duration },
    /// The effect happens, and the connection is closed.
    EffectThenCut,
    /// The effect happens, and the answer is 500.
    EffectThen500,
    /// Nothing happens, and the connection is closed.
    CutBefore,
    /// Nothing happens, and the answer is 503.
    Refuse503,
    /// This machine was too busy to serve it in time. Nothing happens: a provider that is late must not break what it promises.
    TooLate,
    /// Nothing happens: 422, for good.
    Decline,
}

/// Effect of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderEffect {
    /// A new effect.
    Effect { id: String },
    /// The effect of an earlier request with the same key.
    Replayed { id: String },
    /// Nothing.
    Nothing,
    /// It is still being worked on.
    Working,
}

/// One request, as the provider saw it.
#[derive(Debug, Clone)]
pub struct Call {
    pub at: Duration,
    pub ended_at: Option<Duration>,
    /// `charge`, `wire`, …
    pub kind: String,
    /// The business operation.
    pub op: String,
    /// The effect key.
    pub key: String,
    pub fence: Option<String>,
    /// The number of the document that an action on a business object was begun under.
    pub document: Option<u64>,
    behaviour: Behaviour,
    pub done: ProviderEffect,
    pub status: Option<u16>,
}

impl Call {
    /// Returns true if this request caused the effect, rather than repeated an earlier one.
    pub fn is_processed(&self) -> bool {
        matches!(self.done, ProviderEffect::Effect { .. } | ProviderEffect::Replayed { .. })
    }

    pub fn is_effect(&self) -> bool {
        matches!(self.done, ProviderEffect::Effect { .. })
    }

    /// The request, for a story.
    pub fn tell_briefly(&self) -> String {
        let fence = self.fence.as_deref().map_or_else(String::new, |fence| format!(" fence {fence}"));
        let document = self.document.map_or_else(String::new, |number| format!(" document {number}"));
        format!("{} key {}{fence}{document}: {:?}", self.kind, self.key, self.behaviour)
    }

    /// The outcome.
    pub fn tell_end(&self) -> String {
        let status = self.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        format!("{} key {} → {:?}, {status}", self.kind, self.key, self.done)
    }

    /// One line of the whole record.
    pub fn tell(&self) -> String {
        let ended = self.ended_at.map_or_else(|| "-".to_owned(), |at| format!("{:.3}", at.as_secs_f64()));
        let fence = self.fence.as_deref().unwrap_or("-");
        let status = self.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        format!(
            "{:>9.3} s … {ended} s  {} {} key={} fence={fence} {:?} → {:?}, {status}",
            self.at.as_secs_f64(),
            self.kind,
            self.op,
            self.key,
            self.behaviour,
            self.done
        )
    }
}

/// Kinds of effects, each with the kind that undoes it.
pub const UNDONE_BY: &[(&str, &str)] =
    &[("charge", "refund"), ("wire", "unwire"), ("fax", "unfax"), ("ship", "unship")];
/// Kinds whose requests are effects anew each time: the provider ignores their keys.
pub const IGNORES_KEYS: &[&str] = &["wire", "fax", "ship", "stamp", "pay"];

#[derive(Debug)]
struct Inner {
    seed: u64,
    began_at: Instant,
    is_difficult: AtomicBool,
    record: Mutex<Record>,
    lookups: AtomicUsize,
    /// Milliseconds since the start until which requests count as late.
    late_until: AtomicU64,
    /// When the machine was last seen to be in time, in milliseconds since the start.
    ticked_at: AtomicU64,
}

/// Every request, and where to find some of them.
#[derive(Debug, Default)]
struct Record {
    calls: Vec<Call>,
    /// How many requests of a kind an operation has sent.
    counts: HashMap<(String, String), usize>,
    /// The first effect under each key.
    effects: HashMap<String, String>,
    /// How many requests with a key are being worked on.
    working: HashMap<String, usize>,
}

/// The provider.
#[derive(Debug, Clone)]
pub struct Provider {
    inner: Arc<Inner>,
    address: SocketAddr,
}

impl Provider {
    pub async fn start(seed: u64, began_at: Instant) -> Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the provider")?;
        let address = listener.local_addr()?;
        let inner = Inner {
            seed,
            began_at,
            is_difficult: AtomicBool::new(true),
            record: Mutex::default(),
            lookups: AtomicUsize::new(0),
            late_until: AtomicU64::new(0),
            ticked_at: AtomicU64::new(0),
        };
        let provider = Provider { inner: Arc::new(inner), address };
        tokio::spawn(accept(provider.clone(), listener));
        tokio::spawn(keep_time(provider.clone()));
        Ok(provider)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Turns misbehaviour on or off.
    pub fn set_difficult(&self, is_difficult: bool) {
        self.inner.is_difficult.store(is_difficult, Ordering::Relaxed);
    }

    /// Everything it saw so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    pub fn count_lookups(&self) -> usize {
        self.inner.lookups.load(Ordering::Relaxed)
    }

    /// The id of the effect under this key, if there is one.
    pub fn find_effect(&self, key: &str) -> Option<String> {
        self.lock().effects.get(key).cloned()
    }

    pub fn count_calls(&self) -> usize {
        self.lock().calls.len()
    }

    /// Returns whether a request with this key is in progress.
    pub fn is_working(&self, key: &str) -> bool {
        self.lock().working.get(key).is_some_and(|count| *count > 0)
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.inner.record.lock().expect("nobody panics while holding the record")
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.inner.began_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns whether this machine is, or was a moment ago, too busy to serve requests in time.
    fn is_late(&self) -> bool {
        let now = self.now_ms();
        let ticked_at = self.inner.ticked_at.load(Ordering::Relaxed);
        let most = u64::try_from((TICK + MOST_LATE).as_millis()).unwrap_or(u64::MAX);
        now < self.inner.late_until.load(Ordering::Relaxed) || now.saturating_sub(ticked_at) > most
    }

    /// Records a request. Returns its index and how to treat it.
    fn begin(&self, mut call: Call) -> Option<(usize, Behaviour)> {
        let mut record = self.lock();
        if record.calls.len() >= MAX_RECORDED {
            return None;
        }
        let count = record.counts.entry((call.kind.clone(), call.op.clone())).or_default();
        let behaviour = match self.is_late() {
            true => Behaviour::TooLate,
            false => self.behave(&call.kind, &call.op, *count),
        };
        *count += 1;
        *record.working.entry(call.key.clone()).or_default() += 1;
        (call.at, call.behaviour) = (self.inner.began_at.elapsed(), behaviour);
        record.calls.push(call);
        Some((record.calls.len() - 1, behaviour))
    }

    /// The same for the same seed, operation and count of requests.
    fn behave(&self, kind: &str, op: &str, earlier: usize) -> Behaviour {
        if kind == "book" || (kind == "check" && earlier == 0) {
            return Behaviour::Decline;
        }
        if !self.inner.is_difficult.load(Ordering::Relaxed) {
            return Behaviour::Answer { after: Duration::ZERO };
        }
        let mut rng = self.rng((kind, op, earlier));
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (timeout, longest) = (ms(STEP_TIMEOUT), ms(PROVIDER_WORKS));
        let mut span = |from, to| Duration::from_millis(rng.u64(from..=to));
        match self.rng((op, kind, earlier, "behaviour")).u32(0..100) {
            0..46 => Behaviour::Answer { after: span(0, 120) },
            46..60 => Behaviour::Answer { after: span(300, timeout - 400) },
            60..66 => Behaviour::Answer { after: span(timeout + 50, longest) },
            66..78 => Behaviour::WorkFirst { work: span(400, longest) },
            78..85 => Behaviour::EffectThenCut,
            85..91 => Behaviour::EffectThen500,
            91..95 => Behaviour::CutBefore,
            _ => Behaviour::Refuse503,
        }
    }

    fn rng(&self, of: impl Hash) -> Rng {
        let mut hasher = DefaultHasher::new();
        (self.inner.seed, of).hash(&mut hasher);
        Rng::with_seed(hasher.finish())
    }

    /// Lets the effect of a request happen; its id. None if it is later than the provider promises: then nothing happens.
    fn take_effect(&self, place: usize) -> Option<String> {
        let mut record = self.lock();
        let call = &record.calls[place];
        if self.inner.began_at.elapsed() > call.at + PROVIDER_WORKS + MOST_LATE {
            return None;
        }
        let (kind, key) = (call.kind.clone(), call.key.clone());
        let honours_keys = !IGNORES_KEYS.contains(&kind.as_str());
        let earlier = record.effects.get(&key).filter(|_| honours_keys).cloned();
        let id = earlier.clone().unwrap_or_else(|| format!("{kind}_{place}"));
        record.calls[place].done = match earlier {
            Some(id) => ProviderEffect::Replayed { id },
            None => ProviderEffect::Effect { id: id.clone() },
        };
        record.effects.entry(key).or_insert_with(|| id.clone());
        Some(id)
    }

    fn end(&self, place: usize, status: Option<u16>) {
        let mut record = self.lock();
        let call = &mut record.calls[place];
        (call.ended_at, call.status) = (Some(self.inner.began_at.elapsed()), status);
        if call.done == ProviderEffect::Working {
            call.done = ProviderEffect::Nothing;
        }
        let key = call.key.clone();
        if let Some(count) = record.working.get_mut(&key) {
            *count -= 1;
        }
    }
}

/// Watches whether this process gets its turn in time. On a machine that is much too busy a request may have waited for longer than the provider
/// promises before anybody read it; such requests are turned away.
async fn keep_time(provider: Provider) {
    loop {
        let began_at = Instant::now();
        tokio::time::sleep(TICK).await;
        let now = provider.now_ms();
        provider.inner.ticked_at.store(now, Ordering::Relaxed);
        if began_at.elapsed() > TICK + MOST_LATE {
            let until = now + u64::try_from(LATE_FOR.as_millis()).unwrap_or(u64::MAX);
            provider.inner.late_until.store(until, Ordering::Relaxed);
        }
    }
}

async fn accept(provider: Provider, listener: TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (provider, open) = (provider.clone(), open.clone());
        tokio::spawn(async move {
            let _ = serve(&provider, stream).await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Serves one connection until it is closed.
async fn serve(provider: &Provider, mut stream: TcpStream) -> Result<()> {
    let mut bytes = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut bytes).await? {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let goes_on = match path.strip_prefix("/lookup/") {
            Some(rest) => look_up(provider, &mut stream, rest).await?,
            None => take(provider, &mut stream, &path, &head, &body).await?,
        };
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

/// One effect; whether the connection stays open. The work goes on when the caller has left: only writing the answer can fail.
async fn take(
    provider: &Provider,
    stream: &mut TcpStream,
    path: &str,
    head: &str,
    body: &[u8],
) -> Result<bool> {
    let kind = path.rsplit('/').next().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let op = body["op"].as_str().unwrap_or_default();
    let key = header_of(head, "idempotency-key").unwrap_or_default().trim_matches('"').to_owned();
    let fence = header_of(head, "hapax-fence");
    let call = Call {
        at: Duration::ZERO,
        ended_at: None,
        kind: kind.to_owned(),
        op: op.to_owned(),
        key,
        fence,
        document: body["document"].as_u64(),
        behaviour: Behaviour::TooLate,
        done: ProviderEffect::Working,
        status: None,
    };
    let Some((place, behaviour)) = provider.begin(call) else {
        return answer(stream, 503, &json!({ "error": "the record is full" })).await;
    };
    let (status, body) = match behaviour {
        Behaviour::Answer { after } => {
            let id = provider.take_effect(place);
            tokio::time::sleep(after).await;
            done_or_late(id)
        }
        Behaviour::WorkFirst { work } => {
            tokio::time::sleep(work).await;
            done_or_late(provider.take_effect(place))
        }
        Behaviour::EffectThenCut => {
            provider.take_effect(place);
            provider.end(place, None);
            let _ = stream.set_zero_linger();
            return Ok(false);
        }
        Behaviour::CutBefore | Behaviour::TooLate => {
            provider.end(place, None);
            return Ok(false);
        }
        Behaviour::EffectThen500 => {
            provider.take_effect(place);
            (500, json!({ "error": "something broke after the effect" }))
        }
        Behaviour::Refuse503 => (503, json!({ "error": "busy" })),
        Behaviour::Decline => (422, json!({ "error": "declined" })),
    };
    provider.end(place, Some(status));
    answer(stream, status, &body).await
}

fn done_or_late(id: Option<String>) -> (u16, Value) {
    match id {
        Some(id) => (200, json!({ "id": id })),
        None => (503, json!({ "error": "too busy" })),
    }
}

/// State of the effect under a key. While it is in progress the response is the same as if it had never arrived.
async fn look_up(provider: &Provider, stream: &mut TcpStream, rest: &str) -> Result<bool> {
    let key = percent_decoded(rest.rsplit('/').next().unwrap_or_default());
    let lookup = provider.inner.lookups.fetch_add(1, Ordering::Relaxed);
    if provider.inner.is_difficult.load(Ordering::Relaxed) && provider.rng(("lookup", lookup)).u32(0..100) < 6
    {
        return answer(stream, 500, &json!({ "error": "try again" })).await;
    }
    match provider.find_effect(&key) {
        Some(id) => answer(stream, 200, &json!({ "id": id })).await,
        None => answer(stream, 404, &json!({ "error": "no such effect" })).await,
    }
}

async fn answer(stream: &mut TcpStream, status: u16, body: &Value) -> Result<bool> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} It is so\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    Ok(true)
}

/// The next request of a connection; none when the caller is done.
async fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<Option<(String, Vec<u8>)>> {
    let mut chunk = [0; 4096];
    loop {
        if let Some((head, rest)) = split_head(bytes) {
            let length: usize =
                header_of(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            if rest.len() >= length {
                let body = rest[..length].to_vec();
                let used = bytes.len() - (rest.len() - length);
                bytes.drain(..used);
                return Ok(Some((head, body)));
            }
        }
        anyhow::ensure!(bytes.len() < MAX_REQUEST_BYTES, "the request is too large");
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk[..read]);
    }
}

fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let hex = (byte == b'%').then(|| [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')]);
        let value = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok());
        decoded.push(value.unwrap_or(byte));
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Counts by kind of effects, for the summary.
pub fn count_effects(calls: &[Call]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for call in calls.iter().filter(|call| call.is_effect()) {
        *counts.entry(call.kind.clone()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_encoded_key_is_the_key() {
        assert_eq!(percent_decoded("run_1%3Awire"), "run_1:wire");
    }
}
