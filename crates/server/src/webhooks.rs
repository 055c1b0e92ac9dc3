//! Webhooks: [`inbound`] takes events from providers, [`outbound`] notifies subscribers. Signatures are in the crate
//! `hapax-webhooks`.

pub(crate) mod inbound;
pub(crate) mod outbound;
