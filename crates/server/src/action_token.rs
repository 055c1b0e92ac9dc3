//! Action tokens: `hpa_` and a signed statement of what its holder may do with one entity. Nothing is stored. A token ends
//! by itself after minutes, and with its credential.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hapax_api::Role;
use hapax_engine::model::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::limits::MAX_ACTION_TOKEN_CHARS;

/// Prefix of every token.
pub(crate) const PREFIX: &str = "hpa_";
/// Keeps these seals apart from other signatures with a secret of the installation.
const PURPOSE: &[u8] = b"hapax action token 1\0";
const TAG_BYTES: usize = 32;

/// Rights of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Credential that created it. The token ends with it.
    pub(crate) credential: String,
    /// Type of the entity.
    pub(crate) kind: String,
    /// Id of the entity.
    pub(crate) id: String,
    /// Role of the holder.
    pub(crate) role: Role,
    /// Requester that the holder is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) requester: Option<String>,
    /// The person, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) person: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) expires_at: i64,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadToken {
    /// Not signed by this installation.
    Unknown,
    /// Its time is over.
    Expired,
}

/// Makes and opens tokens. All nodes of an installation share the secret.
pub struct ActionTokens {
    secret: [u8; 32],
}

impl ActionTokens {
    /// Creates tokens with the secret of the installation.
    pub fn new(secret: [u8; 32]) -> Self {
        ActionTokens { secret }
    }

    pub(crate) fn seal(&self, grant: &Grant) -> String {
        let grant = serde_json::to_vec(grant).expect("texts are JSON");
        let mut sealed = self.mac(&grant).finalize().into_bytes().to_vec();
        sealed.extend_from_slice(&grant);
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    pub(crate) fn open(&self, token: &str, now: Timestamp) -> Result<Grant, BadToken> {
        let grant = self.read(token).ok_or(BadToken::Unknown)?;
        if now.as_millis() >= grant.expires_at { Err(BadToken::Expired) } else { Ok(grant) }
    }

    fn read(&self, token: &str) -> Option<Grant> {
        if token.len() > MAX_ACTION_TOKEN_CHARS {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?;
        let (tag, grant) = sealed.split_at_checked(TAG_BYTES)?;
        self.mac(grant).verify_slice(tag).ok()?;
        serde_json::from_slice(grant).ok()
    }

    fn mac(&self, grant: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(PURPOSE);
        mac.update(grant);
        mac
    }
}

/// The action token in the headers, if they have one and no other credential.
pub(crate) fn token_in(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (only, None) = (given.next()?, given.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    let is_alone = !headers.contains_key("x-api-key");
    (scheme.eq_ignore_ascii_case("bearer") && token.starts_with(PREFIX) && is_alone).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> Grant {
        Grant {
            credential: "cred_a".into(),
            kind: "refund".into(),
            id: "R1".into(),
            role: Role::Operator,
            requester: None,
            person: Some("anna".into()),
            expires_at: 1_000,
        }
    }

    #[test]
    fn a_token_opens_until_it_expires_and_only_unchanged() {
        let tokens = ActionTokens::new([7; 32]);
        let token = tokens.seal(&grant());
        assert_eq!(tokens.open(&token, Timestamp::from_millis(999)), Ok(grant()));
        assert_eq!(tokens.open(&token, Timestamp::from_millis(1_000)), Err(BadToken::Expired));
        let forged = tokens.seal(&Grant { role: Role::Manager, ..grant() });
        let (head, tail) = (&token[..PREFIX.len() + 42], &forged[PREFIX.len() + 42..]);
        let now = Timestamp::from_millis(0);
        assert_eq!(tokens.open(&format!("{head}{tail}"), now), Err(BadToken::Unknown));
        assert_eq!(ActionTokens::new([8; 32]).open(&token, now), Err(BadToken::Unknown));
        for bad in ["", "hpa_", "hpa_x", "hpa_AAAA", &token[1..]] {
            assert_eq!(tokens.open(bad, now), Err(BadToken::Unknown), "{bad}");
        }
    }

    #[test]
    fn a_token_beside_another_credential_is_none() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer hpa_x".parse().unwrap());
        assert_eq!(token_in(&headers), Some("hpa_x"));
        headers.insert("x-api-key", "hpx_y".parse().unwrap());
        assert_eq!(token_in(&headers), None);
    }
}
