//! Signature schemes of webhooks.

use http::HeaderName;

/// A way to sign webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`; secrets are `whsec_` and base64.
    StandardWebhooks,
    /// `Stripe-Signature: t=…,v1=…`.
    Stripe,
    /// `X-Hub-Signature-256: sha256=…`.
    GitHub,
    /// `X-Slack-Request-Timestamp` and `X-Slack-Signature: v0=…`.
    Slack,
    /// A MAC of the body in a header.
    Hmac(HmacScheme),
    /// No signature: anyone who knows the address can send.
    Unsigned,
}

impl Scheme {
    /// The scheme's name in documents.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Scheme::StandardWebhooks => "standard-webhooks",
            Scheme::Stripe => "stripe",
            Scheme::GitHub => "github",
            Scheme::Slack => "slack",
            Scheme::Hmac(_) => "hmac",
            Scheme::Unsigned => "none",
        }
    }

    /// Returns whether the scheme signs a timestamp, so that old requests are recognised.
    pub const fn has_timestamp(&self) -> bool {
        match self {
            Scheme::StandardWebhooks | Scheme::Stripe | Scheme::Slack => true,
            Scheme::GitHub | Scheme::Hmac(_) | Scheme::Unsigned => false,
        }
    }

    /// Returns true if the signature covers this header, so that a captured request cannot be sent again with another
    /// value in it.
    pub fn signs(&self, header: &HeaderName) -> bool {
        match self {
            Scheme::StandardWebhooks => matches!(header.as_str(), "webhook-id" | "webhook-timestamp"),
            Scheme::Slack => header.as_str() == "x-slack-request-timestamp",
            Scheme::Stripe | Scheme::GitHub | Scheme::Hmac(_) | Scheme::Unsigned => false,
        }
    }

    /// The header with the signature, if there is one. It must not be shown or stored.
    pub fn signature_header(&self) -> Option<HeaderName> {
        let name = match self {
            Scheme::StandardWebhooks => "webhook-signature",
            Scheme::Stripe => "stripe-signature",
            Scheme::GitHub => "x-hub-signature-256",
            Scheme::Slack => "x-slack-signature",
            Scheme::Hmac(scheme) => return Some(scheme.header.clone()),
            Scheme::Unsigned => return None,
        };
        Some(HeaderName::from_static(name))
    }
}

/// Header and form of a MAC of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HmacScheme {
    /// The header.
    pub header: HeaderName,
    /// The hash.
    pub algorithm: Algorithm,
    /// Encoding of the MAC.
    pub encoding: Encoding,
    /// Prefix of the signature, such as `sha256=`.
    pub prefix: String,
}

/// The hash under a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-1, for providers with nothing better.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 3] = [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

    /// The algorithm's name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    /// Length of a MAC in bytes.
    pub const fn mac_bytes(self) -> usize {
        match self {
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }
}

/// Encoding of a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Two digits per byte, of either case.
    Hex,
    /// Base64 with the standard alphabet.
    Base64,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Encoding; 2] = [Encoding::Hex, Encoding::Base64];

    /// The encoding's name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
        }
    }
}
