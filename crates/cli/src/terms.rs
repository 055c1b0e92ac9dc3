//! Under which key a change is sent, and on which version.

use hapax_api::client::Terms;

use crate::words::word;

/// The key of a change.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyOptions {
    /// Name this request: sent again under the same key it gets the same answer. One is made if none is given.
    #[arg(long, value_name = "KEY", value_parser = word)]
    request_key: Option<String>,
}

impl KeyOptions {
    pub(crate) fn terms(&self) -> Terms {
        Terms { idempotency_key: self.request_key.clone(), if_version: None }
    }
}
