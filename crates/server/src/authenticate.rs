//! Authentication: keys are looked up by id, compared by hash, and cached for a moment. Tokens of identity providers are
//! verified each time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_api::{Code, Problem};
use hapax_engine::model::{Name, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::watch;

use crate::credentials::key::{ApiKey, KeyId, SecretHash};
use crate::directory::{Directory, StoredCredential};
use crate::identity::Identity;
use crate::limits::{CREDENTIAL_CACHE_FOR, LAST_USED_RESOLUTION, MAX_CACHED_CREDENTIALS};
use crate::people::{People, Refusal, looks_like_token};
use crate::rate_limit::FailedAuth;
use crate::refused_sign_ins::RefusedSignIns;

/// Authenticates callers.
pub struct Authenticator {
    directory: Directory,
    /// Identity providers whose tokens count, if there are any.
    people: Option<Arc<People>>,
    failures: FailedAuth,
    refused: Arc<RefusedSignIns>,
    known: Mutex<CredentialCache>,
    /// Changes whenever a credential is changed on this node.
    changed: watch::Sender<u64>,
}

/// Cached credentials.
#[derive(Default)]
struct CredentialCache {
    /// By the ids in the keys.
    credentials: HashMap<KeyId, CachedCredential>,
    /// Number of invalidations. A lookup that began before an invalidation may be older than the
    /// change.
    changes: u64,
}

struct CachedCredential {
    found: Found,
    since: Instant,
}

/// A credential, and its caller's identity if the key fits.
type Found = (Arc<StoredCredential>, Arc<Identity>);

impl Authenticator {
    /// Creates an authenticator for the credentials of `directory`.
    pub(crate) fn new(
        directory: Directory,
        people: Option<Arc<People>>,
        refused: Arc<RefusedSignIns>,
    ) -> Self {
        Authenticator {
            directory,
            people,
            refused,
            failures: FailedAuth::default(),
            known: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// Identifies the caller that sent these headers from `address`.
    ///
    /// A credential is cached for a moment, so a revocation takes effect everywhere within that
    /// time, and on this node at once.
    pub async fn identify(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Arc<Identity>, Problem> {
        let key = match (given(headers), &self.people) {
            (Some(PresentedCredential::Key(key)), _) => key,
            (Some(PresentedCredential::Token(token)), Some(people)) => {
                return match people.identify(token, now).await {
                    Ok(identity) => Ok(Arc::new(identity)),
                    Err(refusal) => Err(self.refuse_person(address, refusal)),
                };
            }
            (Some(PresentedCredential::Token(_)) | None, _) => return Err(self.refuse(address, None)),
        };
        let mut found = self.find(&key).await?;
        if found.as_ref().is_some_and(|(credential, _)| !credential.admits(&key, now)) {
            // Another node may have rotated it after it was cached here.
            self.forget_remembered(&key);
            found = self.find(&key).await?;
        }
        match found {
            Some((credential, identity)) if credential.admits(&key, now) => {
                if !credential.admits_address(address) {
                    let from = address.map_or("nowhere".to_owned(), |address| address.to_string());
                    let detail = format!(
                        "The credential may not be used from {from}. Use it from one of its networks."
                    );
                    let problem = Problem::new(Code::NetworkNotAllowed, detail);
                    let why = format!("the credential {} may not be used from there", credential.id);
                    return Err(self.refuse_person(address, Refusal { problem, why }));
                }
                self.note_use(&credential, now);
                Ok(identity)
            }
            Some((credential, _)) => {
                self.refused.note(address, format!("a key of {} that does not count", credential.id));
                Err(self.refuse(address, Some(&key)))
            }
            None => {
                // Takes as long as for an existing id.
                std::hint::black_box(SecretHash::unmatchable().matches(&key.hash()));
                self.refused.note(address, "a key that nobody has".into());
                Err(self.refuse(address, Some(&key)))
            }
        }
    }

    /// Whom the credential identifies at `now`, without its key; `None` if it is revoked or expired. As old as the answer of
    /// [`Authenticator::identify`].
    pub(crate) async fn find_identity(
        &self,
        credential: &Name,
        now: Timestamp,
    ) -> Result<Option<Arc<Identity>>, Problem> {
        let Some(id) = KeyId::from_credential(credential) else { return Ok(None) };
        let found = self.find_by_id(&id).await?;
        Ok(found.and_then(|(credential, identity)| credential.is_alive(now).then_some(identity)))
    }

    /// Removes the key's credential from the cache. Other callers may cache it again at once: their
    /// lookup is no older.
    fn forget_remembered(&self, key: &ApiKey) {
        self.known.lock().expect("no holder panics").credentials.remove(key.id());
    }

    /// Removes a credential from the cache after a change on this node.
    pub fn forget(&self, credential: &Name) {
        let mut known = self.known.lock().expect("no holder panics");
        if let Some(id) = KeyId::from_credential(credential) {
            known.credentials.remove(&id);
        }
        known.changes += 1;
        drop(known);
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Finds the key in these headers.
    pub(crate) fn key_in(headers: &HeaderMap) -> Option<ApiKey> {
        given_key(headers)
    }

    /// Returns true if a key that was accepted is still valid. The answer may be as old as that of
    /// [`Authenticator::identify`].
    pub(crate) async fn still_admits(&self, key: &ApiKey, now: Timestamp) -> Result<bool, Problem> {
        Ok(self.find(key).await?.is_some_and(|(credential, _)| credential.admits(key, now)))
    }

    /// Changes whenever a credential is changed on this node, so that long-lived work can check
    /// again.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Counts a refused caller, for the audit log and against their address.
    pub(crate) fn refuse_person(&self, address: Option<IpAddr>, refusal: Refusal) -> Problem {
        self.refused.note(address, refusal.why);
        // A provider that is away is not the caller's fault.
        if refusal.problem.status >= 500 {
            return refusal.problem;
        }
        match address.map(|it| self.failures.count(it, None, Instant::now())) {
            Some(Err(too_often)) => too_often.problem().clone(),
            Some(Ok(())) | None => refusal.problem,
        }
    }

    /// Rejects a caller without a valid key, or asks it to wait after too many failures.
    pub(crate) fn refuse(&self, address: Option<IpAddr>, key: Option<&ApiKey>) -> Problem {
        let id = key.map(|key| key.id().as_str());
        if let Some(Err(too_often)) = address.map(|it| self.failures.count(it, id, Instant::now())) {
            return too_often.problem().clone();
        }
        Problem::new(
            Code::Unauthorized,
            "Send a valid key as `Authorization: Bearer hpx_…` or `x-api-key: hpx_…`, once.",
        )
    }

    async fn find(&self, key: &ApiKey) -> Result<Option<Found>, Problem> {
        self.find_by_id(key.id()).await
    }

    async fn find_by_id(&self, id: &KeyId) -> Result<Option<Found>, Problem> {
        let changes = {
            let known = self.known.lock().expect("no holder panics");
            let remembered = known.credentials.get(id);
            if let Some(it) = remembered.filter(|it| it.since.elapsed() < CREDENTIAL_CACHE_FOR) {
                return Ok(Some(it.found.clone()));
            }
            known.changes
        };
        // Measured from before the query: the store's answer may be as old as that.
        let since = Instant::now();
        let Some(credential) = self.directory.find_credential(&id.credential()).await? else {
            return Ok(None);
        };
        let found = with_identity(credential);
        let mut known = self.known.lock().expect("no holder panics");
        if known.changes != changes {
            return Ok(Some(found));
        }
        let remembered = &mut known.credentials;
        if remembered.len() >= MAX_CACHED_CREDENTIALS {
            remembered.retain(|_, it| it.since.elapsed() < CREDENTIAL_CACHE_FOR);
            if remembered.len() >= MAX_CACHED_CREDENTIALS {
                remembered.clear();
            }
        }
        remembered.insert(id.clone(), CachedCredential { found: found.clone(), since });
        Ok(Some(found))
    }

    /// Records from time to time that a credential is in use.
    fn note_use(&self, credential: &Arc<StoredCredential>, now: Timestamp) {
        let last = credential.last_used_at();
        if last.is_none_or(|last| now.since(last) >= LAST_USED_RESOLUTION) {
            // A stale cache entry would make the next request record the use again.
            self.forget(&credential.id);
            let (directory, credential) = (self.directory.clone(), credential.clone());
            tokio::spawn(async move { directory.note_use(&credential).await });
        }
    }
}

fn with_identity(credential: StoredCredential) -> Found {
    let identity = credential.identity();
    (Arc::new(credential), Arc::new(identity))
}

/// Credential that a caller sent.
enum PresentedCredential<'a> {
    Key(ApiKey),
    Token(&'a str),
}

fn given_key(headers: &HeaderMap) -> Option<ApiKey> {
    match given(headers)? {
        PresentedCredential::Key(key) => Some(key),
        PresentedCredential::Token(_) => None,
    }
}

/// The key or token in the headers; `None` if there is none, more than one, or a malformed one.
fn given(headers: &HeaderMap) -> Option<PresentedCredential<'_>> {
    let bearer = headers.get_all(AUTHORIZATION).iter().map(|value| {
        let text = value.to_str().ok()?;
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key)
    });
    let plain = headers.get_all("x-api-key").iter().map(|value| value.to_str().ok());
    let mut given = bearer.chain(plain);
    match (given.next(), given.next()) {
        (Some(Some(token)), None) if looks_like_token(token) => Some(PresentedCredential::Token(token)),
        (Some(Some(key)), None) => ApiKey::parse(key).ok().map(PresentedCredential::Key),
        _ => None,
    }
}

/// Longest time that another node may still accept a revoked credential.
pub const REVOCATION_BOUND: Duration = Duration::from_secs(5);
const _: () = assert!(CREDENTIAL_CACHE_FOR.as_secs() < REVOCATION_BOUND.as_secs());
