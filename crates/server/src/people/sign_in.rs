//! A sign-in at a provider, from the button to the person.

use std::collections::VecDeque;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hapax_api::{Code, Problem};
use hapax_engine::model::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::claims::Attested;
use super::jwt::{Expected, SignInOf};
use super::provider::form_urlencoded;
use super::{People, Refusal, rejected, unreachable_provider};
use crate::identity::Identity;
use crate::limits::{MAX_CODE_BYTES, MAX_SIGN_IN_COOKIE_BYTES, MAX_USED_STATES, SIGN_IN_FOR};

/// Where the console takes people back.
const CALLBACK: &str = "/console/sign-in/callback";
/// Purpose of the sealed cookie.
const SEALED_FOR: &str = "console sign-in";

/// A sign-in that was begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Where the browser goes.
    pub(crate) url: String,
    /// State kept in the cookie.
    pub(crate) cookie: String,
}

/// Parameters of the redirect back.
#[derive(Debug, Default)]
pub(crate) struct Returned<'a> {
    pub(crate) cookie: &'a str,
    pub(crate) state: &'a str,
    pub(crate) code: &'a str,
    pub(crate) error: &'a str,
    pub(crate) issuer: &'a str,
}

/// Content of the cookie.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    provider: String,
    state: String,
    nonce: String,
    verifier: String,
    next: String,
    until: i64,
}

/// States that were used on this node, until they expire. The provider takes each code once as well.
#[derive(Debug, Default)]
pub(super) struct UsedStates(Mutex<VecDeque<(String, Timestamp)>>);

impl UsedStates {
    /// Marks a state as used; `false` if it was.
    fn take(&self, state: &str, now: Timestamp) -> bool {
        let mut used = self.0.lock().expect("no holder panics");
        used.retain(|(_, until)| now < *until);
        if used.iter().any(|(known, _)| known == state) {
            return false;
        }
        if used.len() >= MAX_USED_STATES {
            used.pop_front();
        }
        used.push_back((state.to_owned(), now.plus(SIGN_IN_FOR)));
        true
    }
}

fn again(why: &str) -> Refusal {
    let detail = "This sign-in is over: it took too long, was finished already, or began in another browser. Begin again.";
    Refusal::new(Problem::new(Code::Unauthorized, detail), format!("a sign-in: {why}"))
}

fn random() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random bytes");
        Problem::new(Code::Internal, "The sign-in could not begin. Report `traceId` to the operator.")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl People {
    fn redirect_uri(&self) -> String {
        format!("{}{CALLBACK}", self.public_url)
    }

    /// Begins a sign-in that leads to `next` in the end.
    pub(crate) async fn begin(&self, provider: &str, next: &str, now: Timestamp) -> Result<Begun, Problem> {
        let found = self.provider(provider);
        let provider = found
            .ok_or_else(|| Problem::new(Code::NotFound, "There is no identity provider of this name."))?;
        let description =
            provider.describe(now).await.map_err(|fault| unreachable_provider(&fault).problem)?;
        let pending = Pending {
            provider: provider.options.name.clone(),
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            next: next.to_owned(),
            until: now.plus(SIGN_IN_FOR).as_millis(),
        };
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&pending.verifier));
        let query = form_urlencoded(&[
            ("response_type", "code"),
            ("client_id", &provider.options.client_id),
            ("redirect_uri", &self.redirect_uri()),
            ("scope", &provider.options.scopes.join(" ")),
            ("state", &pending.state),
            ("nonce", &pending.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &description.authorization_endpoint;
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        let text = serde_json::to_vec(&pending).expect("texts can be written");
        let sealed = self.sealer.seal(SEALED_FOR, &text).map_err(|error| {
            tracing::error!(%error, "a sign-in cannot be sealed");
            Problem::new(Code::Internal, "The sign-in could not begin. Report `traceId` to the operator.")
        })?;
        let cookie = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&sealed).expect("texts can be written"));
        Ok(Begun { url: format!("{endpoint}{joint}{query}"), cookie })
    }

    fn open(&self, cookie: &str) -> Option<Pending> {
        if cookie.len() > MAX_SIGN_IN_COOKIE_BYTES {
            return None;
        }
        let sealed = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cookie).ok()?).ok()?;
        serde_json::from_slice(&self.sealer.open(SEALED_FOR, &sealed).ok()?).ok()
    }

    /// Finishes a sign-in: who it is, and where to go.
    pub(crate) async fn finish(
        &self,
        returned: &Returned<'_>,
        now: Timestamp,
    ) -> Result<(Attested, Identity, String), Refusal> {
        let pending = self.open(returned.cookie).ok_or_else(|| again("it began in another browser"))?;
        if !bool::from(pending.state.as_bytes().ct_eq(returned.state.as_bytes())) {
            return Err(again("its state is another one"));
        }
        if now.as_millis() >= pending.until {
            return Err(again("it took too long"));
        }
        if !self.used.take(&pending.state, now) {
            return Err(again("its state was used before"));
        }
        let provider = self.provider(&pending.provider).ok_or_else(|| again("its provider is gone"))?;
        let options = &provider.options;
        // RFC 9207: an answer of another provider is not taken for one of this.
        if !returned.issuer.is_empty() && returned.issuer != options.issuer {
            return Err(again("another issuer answered"));
        }
        if !returned.error.is_empty() {
            let word: String = returned.error.chars().filter(char::is_ascii_graphic).take(60).collect();
            let problem =
                Problem::new(Code::Unauthorized, format!("The identity provider let nobody in: {word}."));
            return Err(Refusal::new(problem, format!("the identity provider answered {word}")));
        }
        if returned.code.is_empty() || returned.code.len() > MAX_CODE_BYTES {
            return Err(again("there is no code"));
        }
        let exchanged = provider.exchange(returned.code, &pending.verifier, &self.redirect_uri(), now).await;
        let token = exchanged.map_err(|fault| unreachable_provider(&fault))?;
        let audiences = [options.client_id.clone()];
        let sign_in = Some(SignInOf { nonce: &pending.nonce, client_id: &options.client_id });
        let expected = Expected { issuer: &options.issuer, audiences: &audiences, sign_in };
        let claims = provider.verify(&token, &expected, now).await.map_err(rejected)?;
        let attested = Attested::of(options, &claims);
        let identity = self.admit(&attested).await?;
        Ok((attested, identity, pending.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_used_once_and_the_list_stays_short() {
        let (used, now) = (UsedStates::default(), Timestamp::from_millis(0));
        assert!(used.take("a", now) && !used.take("a", now) && used.take("b", now));
        assert!(used.take("a", now.plus(SIGN_IN_FOR)), "an old one is refused by its age");
        for place in 0..2 * MAX_USED_STATES {
            assert!(used.take(&place.to_string(), now));
        }
        assert_eq!(used.0.lock().unwrap().len(), MAX_USED_STATES);
    }
}
