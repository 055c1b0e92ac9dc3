#![doc = include_str!("../README.md")]

mod admission;
mod answer;
mod body_pieces;
mod caller;
mod fresh_key;
mod header;
mod hold;
mod in_flight;
mod keyed_request;
mod layer;
pub mod limits;
mod observe;
mod operation;
mod policy;
mod problem;
mod service;
mod shared;
mod uses;

pub use answer::{AnswerBody, KEPT_HEADERS, Outcome, RELEASING};
pub use body_pieces::BodyPieces;
pub use caller::{ByHeader, FromExtensions, IdentifyCaller, OneCaller};
pub use fresh_key::FreshKey;
pub use header::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENCY_FIRST_SENT, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, IDEMPOTENCY_STORED,
    read_key, read_wait,
};
pub use keyed_request::FullUri;
pub use layer::{IdempotencyLayer, LayerError};
pub use observe::{Event, IdempotencyStats, Observe};
pub use operation::{OperationId, Takeover};
pub use policy::{Keep, KeyNeed, OnTakeover, Policy, PolicyError};
pub use problem::{Code, PlainProblems, Problem, Problems};
pub use service::Idempotency;

// Re-exports of engine types used in the signatures above.
pub use hapax_engine::model::{IdempotencyKey, RequestId, RequestScope};

/// Any error, as tower passes them.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
