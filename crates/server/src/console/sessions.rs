//! Sessions of the console. Each credential has one entry in the catalog that holds its sessions, so that every node knows
//! them and an ended session is ended everywhere. What the cookie carries is kept as a hash.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hapax_api::{Code, Problem, Role};
use hapax_console::limits::{MAX_SESSIONS_PER_CREDENTIAL, SESSION_IDLE, SESSION_LIFETIME};
use hapax_console::{NewSession, Session, SessionSummary, Visitor};
use hapax_engine::model::{Actor, Name, Timestamp};
use http::Extensions;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{SignedIn, secret};
use crate::credentials::key::{ApiKey, KeyId, SecretHash};
use crate::directory::{Directory, SessionBook, StoredCredential, hash_as_hex};
use crate::identity::Identity;
use crate::limits::{CREDENTIAL_CACHE_FOR, MAX_CACHED_CREDENTIALS, SESSION_SEEN_RESOLUTION};
use crate::people::People;
use crate::people::claims::Attested;

/// How often a change that met another one is tried anew.
const TRIES: u32 = 8;

/// One session as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptSession {
    id: String,
    /// Of what the cookie carries.
    #[serde(with = "hash_as_hex")]
    secret: SecretHash,
    /// Of the API key that signed in, if one did: the session ends when the key does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<KeyHash>,
    /// The person who signed in, if one did: the session ends when no rule gives them a role any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<Attested>,
    began_at: i64,
    seen_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default)]
    agent: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
struct KeyHash(#[serde(with = "hash_as_hex")] SecretHash);

/// Proof of identity behind a session.
#[derive(Debug)]
pub(super) enum Proof<'a> {
    /// An API key.
    Key(&'a ApiKey),
    /// Claims of an identity provider.
    Person(Attested),
}

impl KeptSession {
    fn ends_at(&self) -> Timestamp {
        Timestamp::from_millis(self.began_at).plus(SESSION_LIFETIME)
    }

    fn is_alive(&self, now: Timestamp) -> bool {
        now < self.ends_at() && now.since(Timestamp::from_millis(self.seen_at)) < SESSION_IDLE
    }
}

/// Value of a cookie: credential, session and secret.
struct Token<'a> {
    credential: Name,
    id: &'a str,
    secret: SecretHash,
}

impl<'a> Token<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('.');
        let (credential, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let credential = match credential.starts_with("person_") {
            true => Name::new("person", credential).ok()?,
            false => KeyId::parse(credential)?.credential(),
        };
        parts.next().is_none().then(|| Token { credential, id, secret: hash("cookie", secret) })
    }
}

fn hash(what: &str, text: &str) -> SecretHash {
    let digest =
        Sha256::new().chain_update("hapax console ").chain_update(what).chain_update(" ").chain_update(text);
    SecretHash::from_bytes(digest.finalize().into())
}

/// A session, and its API key if it rests on one.
type Found = (Arc<Session>, Option<Arc<StoredCredential>>);

/// Sessions, remembered for a moment, as credentials are.
pub(super) struct Sessions {
    directory: Directory,
    people: Option<Arc<People>>,
    known: Mutex<SessionCache>,
}

#[derive(Default)]
struct SessionCache {
    /// By cookie.
    sessions: HashMap<String, Remembered>,
    /// How often all was forgotten: what was read before that may be older than the change.
    changes: u64,
}

struct Remembered {
    session: Arc<Session>,
    /// Its API key, if it rests on one.
    credential: Option<Arc<StoredCredential>>,
    ends_at: Timestamp,
    since: Instant,
}

impl Sessions {
    pub(super) fn new(directory: Directory, people: Option<Arc<People>>) -> Self {
        Sessions { directory, people, known: Mutex::default() }
    }

    /// Begins a session; the one used longest ago makes room if there are too many.
    pub(super) async fn begin(
        &self,
        identity: &Identity,
        proof: Proof<'_>,
        visitor: &Visitor,
        by: Actor,
        now: Timestamp,
    ) -> Result<NewSession, Problem> {
        if identity.role == Role::Worker {
            return Err(Problem::new(Code::Forbidden, "A worker's key does work; it sees no pages.")
                .with("requiredRole", "viewer"));
        }
        let (id, own) = (secret()?[..16].to_owned(), secret()?);
        let (owner, key, person) = match proof {
            Proof::Key(key) => (key.id().to_string(), Some(KeyHash(key.hash())), None),
            Proof::Person(person) => (identity.credential.to_string(), None, Some(person)),
        };
        let token = format!("{owner}.{id}.{own}");
        let new = KeptSession {
            id,
            secret: hash("cookie", &own),
            key,
            person,
            began_at: now.as_millis(),
            seen_at: now.as_millis(),
            address: visitor.address.map(|address| address.to_string()),
            agent: visitor.agent.clone(),
        };
        self.change(identity, Some((by, "signed in to the console")), |book| {
            book.retain(|session| session.is_alive(now));
            book.sort_by_key(|session| session.seen_at);
            let surplus = (book.len() + 1).saturating_sub(MAX_SESSIONS_PER_CREDENTIAL);
            book.drain(..surplus);
            book.push(new.clone());
            true
        })
        .await?;
        Ok(NewSession { token })
    }

    /// The session of a cookie. As old as [`CREDENTIAL_CACHE_FOR`], so that an end counts everywhere within that time.
    pub(super) async fn find(
        &self,
        text: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Option<Arc<Session>>, Problem> {
        let found = match self.remembered(text, now) {
            Some(found) => Some(found),
            None => self.look_up(text, now).await?,
        };
        let admits = |credential: &Option<Arc<StoredCredential>>| {
            credential.as_ref().is_none_or(|credential| credential.admits_address(address))
        };
        Ok(found.filter(|(_, credential)| admits(credential)).map(|(session, _)| session))
    }

    async fn look_up(&self, text: &str, now: Timestamp) -> Result<Option<Found>, Problem> {
        let changes = self.known.lock().expect("no holder panics").changes;
        let since = Instant::now();
        let Some(token) = Token::parse(text) else { return Ok(None) };
        let book = self.directory.read_sessions(&token.credential).await?;
        let kept = book.sessions.iter().find(|session| session.id == token.id);
        let Some(kept) =
            kept.filter(|kept| bool::from(kept.secret.as_bytes().ct_eq(token.secret.as_bytes())))
        else {
            return Ok(None);
        };
        if !kept.is_alive(now) {
            return Ok(None);
        }
        let Some((identity, credential)) = self.owner_of(kept, &token.credential, now).await? else {
            return Ok(None);
        };
        self.note_use(&identity, kept, now).await;
        let csrf = hash("csrf", text).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut marks = Extensions::new();
        marks.insert(SignedIn(Arc::new(identity.clone())));
        let session = Arc::new(Session {
            id: kept.id.clone(),
            workspace: identity.workspace.to_string(),
            credential: identity.credential.to_string(),
            name: identity.name.clone(),
            role: identity.role,
            is_installation: identity.is_installation(),
            csrf,
            marks,
        });
        let mut known = self.known.lock().expect("no holder panics");
        if known.changes == changes {
            if known.sessions.len() >= MAX_CACHED_CREDENTIALS {
                known.sessions.clear();
            }
            let (session, credential, ends_at) = (session.clone(), credential.clone(), kept.ends_at());
            known.sessions.insert(text.to_owned(), Remembered { session, credential, ends_at, since });
        }
        Ok(Some((session, credential)))
    }

    /// Owner of a session; `None` if its proof no longer counts.
    async fn owner_of(
        &self,
        kept: &KeptSession,
        owner: &Name,
        now: Timestamp,
    ) -> Result<Option<(Identity, Option<Arc<StoredCredential>>)>, Problem> {
        if let Some(person) = &kept.person {
            let identity = self.people.as_ref().and_then(|people| people.identity_of(person));
            return Ok(identity
                .filter(|identity| identity.credential == *owner)
                .map(|identity| (identity, None)));
        }
        let Some(credential) = self.directory.find_credential(owner).await? else { return Ok(None) };
        let admits = kept.key.is_some_and(|KeyHash(key)| credential.admits_hash(&key, now));
        Ok(admits.then(|| (credential.identity(), Some(Arc::new(credential)))))
    }

    fn remembered(&self, text: &str, now: Timestamp) -> Option<Found> {
        let known = self.known.lock().expect("no holder panics");
        let Remembered { session, credential, ends_at, since } = known.sessions.get(text)?;
        (since.elapsed() < CREDENTIAL_CACHE_FOR && now < *ends_at)
            .then(|| (session.clone(), credential.clone()))
    }

    /// Writes down, now and then, that a session is in use. Losing to another change does not matter.
    async fn note_use(&self, identity: &Identity, kept: &KeptSession, now: Timestamp) {
        if now.since(Timestamp::from_millis(kept.seen_at)) < SESSION_SEEN_RESOLUTION {
            return;
        }
        let noted = self.change(identity, None, |book| {
            let found = book.iter_mut().find(|session| session.id == kept.id);
            found.is_some_and(|session| {
                session.seen_at = session.seen_at.max(now.as_millis());
                true
            })
        });
        if let Err(problem) = noted.await {
            tracing::warn!(%problem, "the use of a session was not written down");
        }
    }

    /// Sessions of a credential, the one used last first.
    pub(super) async fn list(
        &self,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<Vec<SessionSummary>, Problem> {
        let mut sessions = self.directory.read_sessions(&identity.credential).await?.sessions;
        sessions.retain(|session| session.is_alive(now));
        sessions.sort_by_key(|session| std::cmp::Reverse(session.seen_at));
        let shown = |session: KeptSession| SessionSummary {
            signed_in_at: Timestamp::from_millis(session.began_at).to_string(),
            last_seen_at: Timestamp::from_millis(session.seen_at).to_string(),
            expires_at: session.ends_at().to_string(),
            id: session.id,
            address: session.address,
            agent: session.agent,
        };
        Ok(sessions.into_iter().map(shown).collect())
    }

    /// Ends one session, or all of the credential. One that has ended is fine.
    pub(super) async fn end(
        &self,
        identity: &Identity,
        id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let what = match id {
            Some(_) => "ended a session of the console",
            None => "signed out of the console everywhere",
        };
        let by = crate::identity::Acting::locally(identity.clone()).actor(None);
        let ended = self.change(identity, Some((by, what)), |book| {
            let before = book.len();
            book.retain(|session| id.is_some_and(|id| session.id != id) && session.is_alive(now));
            book.len() != before
        });
        ended.await?;
        // After the write, so that nobody remembers what was read before it.
        let mut known = self.known.lock().expect("no holder panics");
        known.sessions.clear();
        known.changes += 1;
        Ok(())
    }

    /// Changes the sessions of a credential; anew on what is there, if another change came first. Nothing is written if `change` says so.
    async fn change(
        &self,
        identity: &Identity,
        note: Option<(Actor, &str)>,
        mut change: impl FnMut(&mut Vec<KeptSession>) -> bool,
    ) -> Result<(), Problem> {
        for _ in 0..TRIES {
            let mut book: SessionBook = self.directory.read_sessions(&identity.credential).await?;
            if !change(&mut book.sessions)
                || self.directory.write_sessions(identity, &book, note.clone()).await?
            {
                return Ok(());
            }
        }
        let detail = "Others keep changing the sessions of this credential. Send the request again.";
        Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1))
    }
}
