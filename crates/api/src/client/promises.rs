//! Promises, one method per route.

use std::time::Duration;

use reqwest::StatusCode;

use super::routes::{Paging, segment, spelled};
use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    CreatePromise, CreateSettleToken, EarlySettlement, IssuedSettleToken, KeptSettlement, Page, Promise,
    PromiseStatus, RejectPromise, ResolvePromise, SettledPromise,
};

/// Filter for a list of promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromiseFilter {
    /// Only of this run.
    pub run: Option<String>,
    /// Only promises with this status now.
    pub status: Option<PromiseStatus>,
    /// Only promises without a run.
    pub stand_alone: bool,
}

/// Result of a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The promise holds this settlement.
    Promise(Box<SettledPromise>),
    /// No promise has this key yet. The settlement is kept for it.
    KeptEarly(KeptSettlement),
}

impl Client {
    /// Creates a promise without a run.
    pub async fn create_promise(
        &self,
        asked: &CreatePromise,
        options: RequestOptions,
    ) -> Result<Promise, ClientError> {
        self.call(Ask::change("/api/v1/promises".into(), asked, options)?).await
    }

    /// Promises, in the order of their ids.
    pub async fn list_promises(
        &self,
        filter: &PromiseFilter,
        paging: &Paging,
    ) -> Result<Page<Promise>, ClientError> {
        let mut query = Vec::new();
        query.extend(filter.run.clone().map(|run| ("runId", run)));
        query.extend(filter.status.map(|status| ("status", spelled(&status))));
        query.extend(filter.stand_alone.then(|| ("standAlone", "true".to_owned())));
        self.page("/api/v1/promises".into(), paging, &query).await
    }

    /// One promise, by `id:…` or `key:…`, after waiting for it to be settled for up to `wait`.
    pub async fn get_promise(&self, promise: &str, wait: Duration) -> Result<Promise, ClientError> {
        let mut ask = Ask::read(promise_path(promise, "")?);
        if !wait.is_zero() {
            ask = ask.header("prefer", format!("wait={}", wait.as_secs()));
        }
        self.call(ask).await
    }

    /// Gives a promise its value.
    pub async fn resolve_promise(
        &self,
        promise: &str,
        asked: &ResolvePromise,
        options: RequestOptions,
    ) -> Result<Settled, ClientError> {
        self.settle(Ask::change(promise_path(promise, "/resolve")?, asked, options)?).await
    }

    /// Says that there will be no value.
    pub async fn reject_promise(
        &self,
        promise: &str,
        asked: &RejectPromise,
        options: RequestOptions,
    ) -> Result<Settled, ClientError> {
        self.settle(Ask::change(promise_path(promise, "/reject")?, asked, options)?).await
    }

    /// Creates a token that settles the promise without a credential. The response shows the token
    /// once, so the request is not retried. The address in the response is absolute.
    pub async fn create_settle_token(
        &self,
        promise: &str,
        asked: &CreateSettleToken,
    ) -> Result<IssuedSettleToken, ClientError> {
        let ask = Ask::change_once(promise_path(promise, "/tokens")?, asked)?;
        let mut issued: IssuedSettleToken = self.call(ask).await?;
        issued.url = format!("{}{}", self.base, issued.url);
        Ok(issued)
    }

    /// Settlements that wait for their promise, in the order of their keys.
    pub async fn list_early_settlements(
        &self,
        paging: &Paging,
    ) -> Result<Page<EarlySettlement>, ClientError> {
        self.page("/api/v1/early-settlements".into(), paging, &[]).await
    }

    async fn settle(&self, ask: Ask) -> Result<Settled, ClientError> {
        let answer = self.send(ask).await?;
        match answer.status {
            StatusCode::ACCEPTED => Ok(Settled::KeptEarly(answer.json()?)),
            _ => Ok(Settled::Promise(Box::new(answer.json()?))),
        }
    }
}

fn promise_path(promise: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/promises/{}{rest}", segment(promise)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4.30: keys hold colons, and may hold slashes.
    #[test]
    fn a_key_is_encoded_once() {
        assert_eq!(
            promise_path("key:stripe:ch/1%2F", "/resolve").unwrap(),
            "/api/v1/promises/key%3Astripe%3Ach%2F1%252F/resolve"
        );
    }
}
