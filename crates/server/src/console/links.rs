//! Links that sign in once: `hapax dev` prints one. They live in this process alone, and not for long.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use hapax_api::Problem;

use super::secret;
use crate::credentials::key::ApiKey;
use crate::limits::{MAX_SIGN_IN_LINKS, SIGN_IN_LINK_LIFETIME};

#[derive(Default)]
pub(super) struct Links(Mutex<HashMap<String, (ApiKey, Instant)>>);

impl Links {
    /// A token that stands for the key, once.
    pub(super) fn make(&self, key: &ApiKey) -> Result<String, Problem> {
        let token = secret()?;
        let key = ApiKey::parse(key.reveal()).expect("it is a key");
        let mut links = self.0.lock().expect("no holder panics");
        links.retain(|_, (_, made)| made.elapsed() < SIGN_IN_LINK_LIFETIME);
        if links.len() >= MAX_SIGN_IN_LINKS {
            links.clear();
        }
        links.insert(token.clone(), (key, Instant::now()));
        Ok(token)
    }

    /// The key behind a token that was not used and is not too old.
    pub(super) fn take(&self, token: &str) -> Option<ApiKey> {
        let (key, made) = self.0.lock().expect("no holder panics").remove(token)?;
        (made.elapsed() < SIGN_IN_LINK_LIFETIME).then_some(key)
    }
}
