//! Claims in a webhook's headers: signatures, signed text and time. [`Verifier`](crate::Verifier) checks whether they
//! are true.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};

use crate::hex;
use crate::limits::{MAX_MESSAGE_ID_CHARS, MAX_SIGNATURE_HEADER_BYTES, MAX_SIGNATURES, MAX_TIMESTAMP_CHARS};
use crate::message::is_message_id;
use crate::pair::SIGNATURE_BYTES;
use crate::refused::VerificationError;
use crate::scheme::{Algorithm, Encoding, HmacScheme, Scheme};

/// The claimed signatures and what they cover.
pub(crate) struct Claim {
    pub(crate) algorithm: Algorithm,
    /// Signed text before the body.
    pub(crate) before_body: String,
    /// MAC signatures, each of the algorithm's length.
    pub(crate) signatures: Vec<Vec<u8>>,
    /// Signatures to verify with a public key. There is at least one signature in this list or the other.
    pub(crate) public_signatures: Vec<Vec<u8>>,
    /// Seconds since 1970.
    pub(crate) signed_at: Option<u64>,
}

/// Reads the headers of `scheme`, or returns `None` if it has none.
pub(crate) fn read_claim(scheme: &Scheme, headers: &HeaderMap) -> Result<Option<Claim>, VerificationError> {
    match scheme {
        Scheme::StandardWebhooks => standard_webhooks(headers),
        Scheme::Stripe => stripe(headers),
        Scheme::GitHub => github(headers),
        Scheme::Slack => slack(headers),
        Scheme::Hmac(scheme) => hmac(scheme, headers),
        Scheme::Unsigned => return Ok(None),
    }
    .map(Some)
}

fn standard_webhooks(headers: &HeaderMap) -> Result<Claim, VerificationError> {
    let id_header = HeaderName::from_static("webhook-id");
    let id = single(headers, &id_header, MAX_MESSAGE_ID_CHARS)?;
    // The signed text is id, timestamp and body, separated by dots. A dot in the id would make it ambiguous.
    if !is_message_id(id) {
        return Err(malformed(id_header, "an id is printable ASCII without spaces and dots"));
    }
    let (written, signed_at) = timestamp(headers, "webhook-timestamp")?;
    let header = HeaderName::from_static("webhook-signature");
    let value = single(headers, &header, MAX_SIGNATURE_HEADER_BYTES)?;
    let of = |version: &'static str, length: usize| {
        let signatures = value.split(' ').filter_map(|part| part.strip_prefix(version));
        several(signatures, &header, |text| STANDARD.decode(text).ok(), length)
    };
    let (signatures, public) = (of("v1,", Algorithm::Sha256.mac_bytes())?, of("v1a,", SIGNATURE_BYTES)?);
    if signatures.is_empty() && public.is_empty() {
        return Err(malformed(header, "it has no signature of version v1 or v1a"));
    }
    let claim = sha256(format!("{id}.{written}."), signatures, Some(signed_at));
    Ok(Claim { public_signatures: public, ..claim })
}

fn stripe(headers: &HeaderMap) -> Result<Claim, VerificationError> {
    let header = HeaderName::from_static("stripe-signature");
    let value = single(headers, &header, MAX_SIGNATURE_HEADER_BYTES)?;
    let parts = || value.split(',').filter_map(|part| part.split_once('='));
    let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, time)| time);
    let (Some(written), None) = (times.next(), times.next()) else {
        return Err(malformed(header, "it says t= once, and v1= at least once"));
    };
    let signed_at = seconds(written).ok_or_else(|| malformed(header.clone(), NOT_SECONDS))?;
    let signatures = parts().filter(|(name, _)| *name == "v1").map(|(_, signature)| signature);
    let signatures = several(signatures, &header, hex::decode, Algorithm::Sha256.mac_bytes())?;
    match signatures.is_empty() {
        true => Err(malformed(header, "it has no signature of version v1")),
        false => Ok(sha256(format!("{written}."), signatures, Some(signed_at))),
    }
}

fn github(headers: &HeaderMap) -> Result<Claim, VerificationError> {
    let header = HeaderName::from_static("x-hub-signature-256");
    let signature = prefixed(headers, &header, "sha256=", "it is sha256= and 64 hexadecimal digits")?;
    Ok(sha256(String::new(), vec![signature], None))
}

fn slack(headers: &HeaderMap) -> Result<Claim, VerificationError> {
    let (written, signed_at) = timestamp(headers, "x-slack-request-timestamp")?;
    let header = HeaderName::from_static("x-slack-signature");
    let signature = prefixed(headers, &header, "v0=", "it is v0= and 64 hexadecimal digits")?;
    Ok(sha256(format!("v0:{written}:"), vec![signature], Some(signed_at)))
}

fn hmac(scheme: &HmacScheme, headers: &HeaderMap) -> Result<Claim, VerificationError> {
    let HmacScheme { header, algorithm, encoding, prefix } = scheme;
    let value = single(headers, header, MAX_SIGNATURE_HEADER_BYTES)?;
    let text = value.strip_prefix(prefix.as_str());
    let signature = text.and_then(|text| match encoding {
        Encoding::Hex => hex::decode(text),
        Encoding::Base64 => STANDARD.decode(text).ok(),
    });
    match signature.filter(|signature| signature.len() == algorithm.mac_bytes()) {
        Some(signature) => Ok(Claim {
            algorithm: *algorithm,
            before_body: String::new(),
            signatures: vec![signature],
            public_signatures: Vec::new(),
            signed_at: None,
        }),
        None => {
            let why =
                "it is not prefix and MAC as the source says; look at its prefix, encoding and algorithm";
            Err(malformed(header.clone(), why))
        }
    }
}

const NOT_SECONDS: &str = "the time is whole seconds since 1970, in digits";

fn sha256(before_body: String, signatures: Vec<Vec<u8>>, signed_at: Option<u64>) -> Claim {
    let public_signatures = Vec::new();
    Claim { algorithm: Algorithm::Sha256, before_body, signatures, public_signatures, signed_at }
}

fn malformed(name: HeaderName, why: &'static str) -> VerificationError {
    VerificationError::Malformed { name, why }
}

/// A required header, which must occur once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName, limit: usize) -> Result<&'h str, VerificationError> {
    let mut values = headers.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err(VerificationError::MissingHeader { name: name.clone() }),
        (Some(_), Some(_)) => return Err(VerificationError::RepeatedHeader { name: name.clone() }),
        (Some(value), None) => value,
    };
    if value.len() > limit {
        return Err(VerificationError::TooLong { name: name.clone(), limit });
    }
    value.to_str().map_err(|_| malformed(name.clone(), "it is not printable ASCII"))
}

/// A timestamp in its signed text form, and as a number.
fn timestamp<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<(&'h str, u64), VerificationError> {
    let name = HeaderName::from_static(name);
    let written = single(headers, &name, MAX_TIMESTAMP_CHARS)?;
    let seconds = seconds(written).ok_or_else(|| malformed(name, NOT_SECONDS))?;
    Ok((written, seconds))
}

fn seconds(text: &str) -> Option<u64> {
    let is_number = text.len() <= MAX_TIMESTAMP_CHARS && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// One SHA-256 signature in hexadecimal digits.
fn prefixed(
    headers: &HeaderMap,
    header: &HeaderName,
    prefix: &str,
    why: &'static str,
) -> Result<Vec<u8>, VerificationError> {
    let value = single(headers, header, MAX_SIGNATURE_HEADER_BYTES)?;
    let signature = value.strip_prefix(prefix).and_then(hex::decode);
    let signature = signature.filter(|signature| signature.len() == Algorithm::Sha256.mac_bytes());
    signature.ok_or_else(|| malformed(header.clone(), why))
}

/// Parses several signatures and ignores malformed ones.
fn several<'t>(
    texts: impl Iterator<Item = &'t str>,
    header: &HeaderName,
    decode: impl Fn(&str) -> Option<Vec<u8>>,
    length: usize,
) -> Result<Vec<Vec<u8>>, VerificationError> {
    let texts: Vec<&str> = texts.take(MAX_SIGNATURES + 1).collect();
    if texts.len() > MAX_SIGNATURES {
        return Err(malformed(header.clone(), "it has more signatures than any honest one"));
    }
    Ok(texts.into_iter().filter_map(decode).filter(|signature| signature.len() == length).collect())
}
