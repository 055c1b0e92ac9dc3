//! Pure rules for incoming and outgoing webhooks: verification, signing, and the delivery schedule.
#![doc = include_str!("../README.md")]

mod claim;
mod hex;
pub mod limits;
mod mac;
mod message;
mod pair;
mod refused;
mod reply;
mod schedule;
mod scheme;
mod secret;
mod sign;
mod verify;

pub use message::{BadMessageId, MessageId};
pub use pair::PublicKey;
pub use refused::VerificationError;
pub use reply::{Reply, Verdict, judge};
pub use schedule::{SCHEDULE, wait_after};
pub use scheme::{Algorithm, Encoding, HmacScheme, Scheme};
pub use secret::{BadSecret, NoRandomness, SigningSecret};
pub use sign::{SignedHeaders, Unsignable, sign, sign_any};
pub use verify::{BadSecrets, Verifier};
