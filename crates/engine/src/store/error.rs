//! Why a store could not answer, sorted by what the caller must do.

/// A store's failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written, and a later try may succeed.
    #[error("the store is not available, nothing was written: {0}")]
    Unavailable(String),
    /// The write may or may not have taken effect; send the same request again to find out.
    #[error("the store did not confirm the write: {0}")]
    Unknown(String),
    /// Nothing was written, and the same request will never succeed.
    #[error("the store refused the request: {0}")]
    Refused(String),
    /// The store's data cannot be trusted or understood; stop and look.
    #[error("the store cannot be used: {0}")]
    Broken(String),
}

impl StoreError {
    /// May the same request succeed later?
    pub const fn is_retryable(&self) -> bool {
        match self {
            StoreError::Unavailable(_) | StoreError::Unknown(_) => true,
            StoreError::Refused(_) | StoreError::Broken(_) => false,
        }
    }
}
