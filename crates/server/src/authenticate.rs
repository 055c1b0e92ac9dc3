//! Authentication: keys are looked up by id, compared by hash, and cached for a moment.

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
use crate::rate_limit::FailedAuth;

/// Authenticates callers.
pub struct Authenticator {
    directory: Directory,
    failures: FailedAuth,
    known: Mutex<Known>,
    /// Changes whenever a credential is changed on this node.
    changed: watch::Sender<u64>,
}

/// Cached credentials.
#[derive(Default)]
struct Known {
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
    pub fn new(directory: Directory) -> Self {
        Authenticator {
            directory,
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
        let Some(key) = given_key(headers) else { return Err(self.refuse(address, None)) };
        let mut found = self.find(&key).await?;
        if found.as_ref().is_some_and(|(credential, _)| !credential.admits(&key, now)) {
            // Another node may have rotated it after it was cached here.
            self.forget_remembered(&key);
            found = self.find(&key).await?;
        }
        match found {
            Some((credential, identity)) if credential.admits(&key, now) => {
                self.note_use(&credential, now);
                Ok(identity)
            }
            Some(_) => Err(self.refuse(address, Some(&key))),
            None => {
                // Takes as long as for an existing id.
                std::hint::black_box(SecretHash::unmatchable().matches(&key.hash()));
                Err(self.refuse(address, Some(&key)))
            }
        }
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

    /// Rejects a caller without a valid key, or asks it to wait after too many failures.
    fn refuse(&self, address: Option<IpAddr>, key: Option<&ApiKey>) -> Problem {
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
        let changes = {
            let known = self.known.lock().expect("no holder panics");
            let remembered = known.credentials.get(key.id());
            if let Some(it) = remembered.filter(|it| it.since.elapsed() < CREDENTIAL_CACHE_FOR) {
                return Ok(Some(it.found.clone()));
            }
            known.changes
        };
        // Measured from before the query: the store's answer may be as old as that.
        let since = Instant::now();
        let Some(credential) = self.directory.find_credential_of(key).await? else { return Ok(None) };
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
        remembered.insert(key.id().clone(), CachedCredential { found: found.clone(), since });
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

/// The key in the headers; `None` if there is none, more than one, or a malformed one.
fn given_key(headers: &HeaderMap) -> Option<ApiKey> {
    let bearer = headers.get_all(AUTHORIZATION).iter().map(|value| {
        let text = value.to_str().ok()?;
        let (scheme, key) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key)
    });
    let plain = headers.get_all("x-api-key").iter().map(|value| value.to_str().ok());
    let mut given = bearer.chain(plain);
    match (given.next(), given.next()) {
        (Some(Some(key)), None) => ApiKey::parse(key).ok(),
        _ => None,
    }
}

/// Longest time in which another node may still accept a revoked credential.
pub const REVOCATION_BOUND: Duration = Duration::from_secs(5);
const _: () = assert!(CREDENTIAL_CACHE_FOR.as_secs() < REVOCATION_BOUND.as_secs());
