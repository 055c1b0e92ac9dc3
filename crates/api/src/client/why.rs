//! The client method that explains what a run waits for.

use super::routes::with_query;
use super::sending::Ask;
use super::{Client, ClientError};
use crate::Why;

impl Client {
    /// Explains what a key, subject or id names, and what the run behind it waits for.
    pub async fn explain(&self, query: &str) -> Result<Why, ClientError> {
        self.call(Ask::read(with_query("/api/v1/why".into(), &[("q", query.to_owned())]))).await
    }
}
