//! Credentials: keys that are shown once and stored as a hash.

use std::net::IpAddr;
use std::time::Duration;

use hapax_api as api;
use hapax_api::{Code, Problem, Role};
use hapax_engine::model::{
    Actor, CatalogItem, CatalogKind, HumanText, Name, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::{ListCatalogItems, PutCatalogItem, PutOutcome};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Directory, body_of, said};
use crate::credentials::key::{ApiKey, KeyId, SecretHash};
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::identity::Identity;
use crate::limits::{MAX_CREDENTIALS_PER_WORKSPACE, MAX_KEY_OVERLAP};

/// How often a change is retried after a conflict.
const TRIES: u32 = 5;

/// Properties of a new credential.
#[derive(Debug, Clone)]
pub struct NewCredential {
    /// Name for people.
    pub name: String,
    /// Role of the credential.
    pub role: Role,
    /// Requester that it acts for.
    pub requester: Option<String>,
    /// Lifetime; `None` never expires.
    pub lives_for: Option<Duration>,
    /// Networks that it may be used from; any if there is none.
    pub networks: Vec<IpNet>,
    /// Is it kept from inputs, outputs and other payloads?
    pub hides_payloads: bool,
    /// Names that its workers may offer; `None` allows all.
    pub may_offer: Option<api::OfferedNames>,
}

impl NewCredential {
    /// A credential without an end, for any network.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        NewCredential {
            name: name.into(),
            role,
            requester: None,
            lives_for: None,
            networks: Vec::new(),
            hides_payloads: false,
            may_offer: None,
        }
    }
}

/// Stored part of a credential. The secret itself is not stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CredentialBody {
    name: String,
    role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requester: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    may_offer: Option<api::OfferedNames>,
    #[serde(with = "hash_as_hex")]
    secret: SecretHash,
    /// The secret before the last rotation, and when it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_secret: Option<OldSecret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    networks: Vec<IpNet>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hides_payloads: bool,
}

/// An old secret that is valid for a while longer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OldSecret {
    #[serde(with = "hash_as_hex")]
    hash: SecretHash,
    until: i64,
}

pub(crate) mod hash_as_hex {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::credentials::key::SecretHash;

    pub(crate) fn serialize<S: Serializer>(hash: &SecretHash, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = hash.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretHash, D::Error> {
        let hex = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return Err(D::Error::custom("a hash has 64 hex digits"));
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).map_err(D::Error::custom)?;
        }
        Ok(SecretHash::from_bytes(bytes))
    }
}

/// A stored credential.
#[derive(Debug, Clone)]
pub struct StoredCredential {
    /// Its id.
    pub id: Name,
    /// Workspace of the credential.
    pub workspace: WorkspaceId,
    created_at: Timestamp,
    version: Version,
    kept: CredentialBody,
}

impl StoredCredential {
    /// Name for people.
    pub fn name(&self) -> &str {
        &self.kept.name
    }

    /// Role of the credential.
    pub fn role(&self) -> Role {
        self.kept.role
    }

    /// Returns true if it is neither revoked nor expired at `now`.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.kept.revoked_at.is_none() && self.kept.expires_at.is_none_or(|at| now.as_millis() < at)
    }

    /// Requester that it acts for.
    pub fn requester(&self) -> Option<&str> {
        self.kept.requester.as_deref()
    }

    /// Returns true if the key is valid at `now`. Takes the same time for any secret.
    pub fn admits(&self, key: &ApiKey, now: Timestamp) -> bool {
        self.admits_hash(&key.hash(), now)
    }

    /// The same for the hash of its secret.
    pub(crate) fn admits_hash(&self, given: &SecretHash, now: Timestamp) -> bool {
        let now = now.as_millis();
        let is_current = self.kept.secret.matches(given);
        let (old, until) = match &self.kept.old_secret {
            Some(old) => (old.hash, old.until),
            None => (SecretHash::unmatchable(), i64::MIN),
        };
        let is_old = old.matches(given) & (now < until);
        let is_alive = self.kept.revoked_at.is_none() & self.kept.expires_at.is_none_or(|at| now < at);
        (is_current | is_old) & is_alive
    }

    /// Caller that uses it.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            workspace: self.workspace.clone(),
            credential: self.id.clone(),
            name: self.kept.name.clone(),
            role: self.kept.role,
            requester: self.kept.requester.clone(),
            sees_payloads: !self.kept.hides_payloads,
            may_offer: self.kept.may_offer.clone(),
            person: None,
            acts_for: None,
            ends_at: None,
        }
    }

    /// Returns true if it may be used from this address. A caller in this process has none.
    pub fn admits_address(&self, address: Option<IpAddr>) -> bool {
        let networks = &self.kept.networks;
        // An IPv4 address is the same in its IPv6 spelling.
        let address = address.map(|address| address.to_canonical());
        networks.is_empty() || address.is_some_and(|address| networks.iter().any(|it| it.contains(&address)))
    }

    /// Recorded time of the last use.
    pub fn last_used_at(&self) -> Option<Timestamp> {
        self.kept.last_used_at.map(Timestamp::from_millis)
    }

    /// The wire form, without its secret.
    pub fn shown(&self) -> api::Credential {
        let time = |ms: Option<i64>| ms.map(|ms| Timestamp::from_millis(ms).to_string());
        api::Credential {
            id: self.id.to_string(),
            workspace_id: self.workspace.to_string(),
            name: self.kept.name.clone(),
            role: self.kept.role,
            requester: self.kept.requester.clone(),
            may_offer: self.kept.may_offer.clone(),
            created_at: self.created_at.to_string(),
            expires_at: time(self.kept.expires_at),
            revoked_at: time(self.kept.revoked_at),
            old_secret_until: time(self.kept.old_secret.as_ref().map(|old| old.until)),
            last_used_at: time(self.kept.last_used_at),
            networks: self.kept.networks.iter().map(ToString::to_string).collect(),
            hides_payloads: self.kept.hides_payloads,
        }
    }

    fn of(item: &CatalogItem) -> Result<Self, Problem> {
        Ok(StoredCredential {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            created_at: item.created_at,
            version: item.version,
            kept: said(item)?,
        })
    }
}

impl Directory {
    /// Creates a credential and its key, which is shown once.
    pub async fn create_credential(
        &self,
        workspace: &WorkspaceId,
        new: NewCredential,
        by: Actor,
    ) -> Result<(StoredCredential, ApiKey), Problem> {
        if self.list_credentials(workspace, None, MAX_CREDENTIALS_PER_WORKSPACE).await?.len()
            >= MAX_CREDENTIALS_PER_WORKSPACE
        {
            let detail = format!(
                "A workspace has at most {MAX_CREDENTIALS_PER_WORKSPACE} credentials; revoked ones count."
            );
            return Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "credentials"));
        }
        self.insert_credential(workspace, new, by, "created").await
    }

    /// Creates one without checking the limit; `what` is its text in the audit log.
    pub(super) async fn insert_credential(
        &self,
        workspace: &WorkspaceId,
        new: NewCredential,
        by: Actor,
        what: &str,
    ) -> Result<(StoredCredential, ApiKey), Problem> {
        let key = ApiKey::generate().map_err(no_random)?;
        let expires_at = new.lives_for.map(|span| self.store.now().plus(span).as_millis());
        let kept = CredentialBody {
            name: new.name,
            role: new.role,
            requester: new.requester,
            may_offer: new.may_offer,
            secret: key.hash(),
            old_secret: None,
            expires_at,
            revoked_at: None,
            last_used_at: None,
            networks: new.networks,
            hides_payloads: new.hides_payloads,
        };
        let id = key.id().credential();
        let request = PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::Credential,
            id: id.clone(),
            name: id.to_string(),
            body: body_of(&kept)?,
            expected: None,
            note: Some(self.set_up(workspace, by, CatalogKind::Credential, &id, what)),
        };
        match self.put(request).await? {
            PutOutcome::Put(item) => Ok((StoredCredential::of(&item)?, key)),
            other => {
                tracing::error!(?other, "a fresh credential id was taken");
                Err(Problem::new(
                    Code::Internal,
                    "The credential could not be created. Send the request again.",
                ))
            }
        }
    }

    /// Gives a credential a new secret; the old one stays valid for `overlap`.
    pub async fn rotate_credential(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        overlap: Duration,
        by: Actor,
    ) -> Result<(StoredCredential, ApiKey), Problem> {
        if overlap > MAX_KEY_OVERLAP {
            let days = MAX_KEY_OVERLAP.as_secs() / 86_400;
            let detail = format!("The old secret may stay valid for at most {days} days.");
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/overlap"));
        }
        let found = self.get_credential(workspace, id).await?;
        if found.kept.revoked_at.is_some() {
            return Err(Problem::new(Code::NotFound, "The credential was revoked; create a new one."));
        }
        let key = ApiKey::generate_for(key_id(&found.id)?).map_err(no_random)?;
        let until = self.store.now().plus(overlap).as_millis();
        let changed = self
            .change(workspace, id, by, "rotated", |kept| {
                let old = std::mem::replace(&mut kept.secret, key.hash());
                kept.old_secret = (!overlap.is_zero()).then_some(OldSecret { hash: old, until });
            })
            .await?;
        Ok((changed, key))
    }

    /// Revokes a credential permanently.
    pub async fn revoke_credential(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        reason: Option<&str>,
        by: Actor,
    ) -> Result<StoredCredential, Problem> {
        let reason = reason.filter(|reason| !reason.is_empty());
        if let Some(reason) = reason {
            HumanText::Reason.check(reason).map_err(|invalid| problem_of_invalid(&invalid))?;
        }
        let found = self.get_credential(workspace, id).await?;
        if found.kept.revoked_at.is_some() {
            return Ok(found);
        }
        if found.role() == Role::Admin && !self.has_other_admin(workspace, &found.id).await? {
            return Err(Problem::new(
                Code::LastAdmin,
                "Create another credential with the role admin first.",
            ));
        }
        let now = self.store.now().as_millis();
        let what = reason.map_or("revoked".into(), |reason| format!("revoked: {reason}"));
        let revoked = self
            .change(workspace, id, by.clone(), &what, |kept| {
                kept.revoked_at.get_or_insert(now);
            })
            .await?;
        // The other admin may have been revoked at the same moment. If no admin is left, this
        // revocation is undone.
        if found.role() == Role::Admin && !self.has_other_admin(workspace, &found.id).await? {
            self.change(workspace, id, by, "revocation taken back: the last admin", |kept| {
                kept.revoked_at = None;
            })
            .await?;
            return Err(Problem::new(
                Code::LastAdmin,
                "Create another credential with the role admin first.",
            ));
        }
        Ok(revoked)
    }

    async fn has_other_admin(&self, workspace: &WorkspaceId, id: &Name) -> Result<bool, Problem> {
        let now = self.store.now().as_millis();
        let all = self.list_credentials(workspace, None, MAX_CREDENTIALS_PER_WORKSPACE).await?;
        Ok(all.iter().any(|other| {
            other.id != *id
                && other.role() == Role::Admin
                && other.kept.revoked_at.is_none()
                && other.kept.expires_at.is_none_or(|at| now < at)
        }))
    }

    /// Records roughly when a credential was used. Losing to another change does not matter.
    pub async fn note_use(&self, credential: &StoredCredential) {
        let mut kept = credential.kept.clone();
        kept.last_used_at = Some(self.store.now().as_millis());
        let Ok(body) = body_of(&kept) else { return };
        let request = PutCatalogItem {
            workspace: credential.workspace.clone(),
            kind: CatalogKind::Credential,
            id: credential.id.clone(),
            name: credential.id.to_string(),
            body,
            expected: Some(credential.version),
            note: None,
        };
        let _ = self.put(request).await;
    }

    /// Finds the credential of a key, in any workspace.
    pub async fn find_credential_of(&self, key: &ApiKey) -> Result<Option<StoredCredential>, Problem> {
        self.find_credential(&key.id().credential()).await
    }

    /// The credential with this id, in whatever workspace.
    pub(crate) async fn find_credential(&self, id: &Name) -> Result<Option<StoredCredential>, Problem> {
        let found = self.catalog().find_item(CatalogKind::Credential, id).await;
        found.map_err(|error| problem_of_store(&error))?.as_ref().map(StoredCredential::of).transpose()
    }

    /// One credential of a workspace.
    pub async fn get_credential(
        &self,
        workspace: &WorkspaceId,
        id: &str,
    ) -> Result<StoredCredential, Problem> {
        let absent = || Problem::new(Code::NotFound, "There is no such credential in this workspace.");
        let id = Name::new("credential id", id).map_err(|_| absent())?;
        let found = self.catalog().find_item(CatalogKind::Credential, &id).await;
        let item = found.map_err(|error| problem_of_store(&error))?;
        let item = item.filter(|item| item.workspace == *workspace).ok_or_else(absent)?;
        StoredCredential::of(&item)
    }

    /// Credentials of a workspace after `after`, in the order of their ids.
    pub async fn list_credentials(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<StoredCredential>, Problem> {
        let request = ListCatalogItems {
            workspace: Some(workspace.clone()),
            kind: CatalogKind::Credential,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        items.iter().map(StoredCredential::of).collect()
    }

    /// Returns true if there is no credential at all.
    pub async fn is_empty(&self) -> Result<bool, Problem> {
        let request = ListCatalogItems {
            workspace: None,
            kind: CatalogKind::Credential,
            changed_since: None,
            after: None,
            limit: 1,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        Ok(items.is_empty())
    }

    /// Changes the stored credential. Retries after a conflict.
    async fn change(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        by: Actor,
        what: &str,
        change: impl Fn(&mut CredentialBody),
    ) -> Result<StoredCredential, Problem> {
        for _ in 0..TRIES {
            let found = self.get_credential(workspace, id).await?;
            let mut kept = found.kept;
            change(&mut kept);
            let request = PutCatalogItem {
                workspace: workspace.clone(),
                kind: CatalogKind::Credential,
                id: found.id.clone(),
                name: found.id.to_string(),
                body: body_of(&kept)?,
                expected: Some(found.version),
                note: Some(self.set_up(workspace, by.clone(), CatalogKind::Credential, &found.id, what)),
            };
            if let PutOutcome::Put(item) = self.put(request).await? {
                return StoredCredential::of(&item);
            }
        }
        Err(Problem::new(
            Code::StoreUnavailable,
            "Other requests keep changing the credential. Send the request again.",
        )
        .retry_after(1))
    }
}

fn key_id(item: &Name) -> Result<KeyId, Problem> {
    KeyId::from_credential(item)
        .ok_or_else(|| Problem::new(Code::NotFound, "There is no such credential in this workspace."))
}

fn no_random(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "the operating system gives no random bytes");
    Problem::new(Code::Internal, "No secret could be created. Report `traceId` to the operator.")
}
