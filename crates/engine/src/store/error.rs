//! Errors of stores, classified by what the caller must do.

/// Error of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. A retry may succeed.
    #[error("the store is not available, nothing was written: {0}")]
    Unavailable(String),
    /// The write may or may not have taken effect. Send the same request again to find out.
    #[error("the store did not confirm the write: {0}")]
    Unknown(String),
    /// Nothing was written, and the same request will never succeed.
    #[error("the store refused the request: {0}")]
    Refused(String),
    /// The data of the store cannot be trusted or understood. Stop and investigate.
    #[error("the store cannot be used: {0}")]
    Broken(String),
}

impl StoreError {
    /// Returns true if the same request may succeed later.
    pub const fn is_retryable(&self) -> bool {
        match self {
            StoreError::Unavailable(_) | StoreError::Unknown(_) => true,
            StoreError::Refused(_) | StoreError::Broken(_) => false,
        }
    }
}
