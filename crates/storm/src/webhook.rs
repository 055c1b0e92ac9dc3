//! Signs webhooks as Standard Webhooks says.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::http::Request;

/// The secret of a seed, as nodes are given it.
pub fn secret(seed: u64) -> String {
    format!("whsec_{}", STANDARD.encode(format!("storm-secret-of-seed-{seed:020}")))
}

/// A webhook that is signed now.
pub fn signed(path: &str, secret: &str, id: &str, body: &Value) -> Request {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let body = body.to_string();
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let request = Request { method: "POST", path: path.to_owned(), headers: Vec::new(), body, op: None };
    request
        .header("webhook-id", id)
        .header("webhook-timestamp", at.to_string())
        .header("webhook-signature", format!("v1,{signature}"))
}
