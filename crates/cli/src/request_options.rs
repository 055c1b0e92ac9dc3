//! Options of requests that change something.

use hapax_api::client::RequestOptions;

use crate::parsers::word;

/// Idempotency key of the request.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyOptions {
    /// Idempotency key of this request: sent again under the same key, it gets the same answer [default: a random one].
    #[arg(long, value_name = "KEY", value_parser = word)]
    request_key: Option<String>,
}

impl KeyOptions {
    pub(crate) fn is_given(&self) -> bool {
        self.request_key.is_some()
    }

    pub(crate) fn options(&self) -> RequestOptions {
        RequestOptions { idempotency_key: self.request_key.clone(), if_version: None }
    }
}
