//! Webhooks as providers send them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_engine::model::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Sha256, Sha512};

/// The secret of each source of the tests, by its name.
pub const SECRETS: &[(&str, &str)] = &[
    ("stripe-webhook", STRIPE),
    ("stripe-webhook-old", "whsec_that_is_old"),
    ("github-webhook", "It's a Secret to Everybody"),
    ("shopify-client-secret", "shpss_of_the_tests_1"),
    ("slack-signing-secret", "8f742231b10e8888abcd99yyyzzz85a5"),
    ("carrier", "secret-of-the-carrier"),
    ("standard", STANDARD_SECRET),
    ("standard-public", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="),
];
pub const STRIPE: &str = "whsec_that_is_new";
pub const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A webhook on its way.
#[derive(Debug, Clone)]
pub struct Webhook {
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

fn seconds(at: Timestamp) -> i64 {
    at.as_millis() / 1_000
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(secret: &str, signed: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(signed);
    mac.finalize().into_bytes().to_vec()
}

/// As Stripe signs at `at`.
pub fn stripe(body: &Value, secret: &str, at: Timestamp) -> Webhook {
    stripe_text(&body.to_string(), secret, at)
}

/// The same for a text that need not be JSON.
pub fn stripe_text(body: &str, secret: &str, at: Timestamp) -> Webhook {
    let t = seconds(at);
    let signature = hex(&sha256(secret, format!("{t}.{body}").as_bytes()));
    Webhook { headers: vec![("stripe-signature", format!("t={t},v1={signature}"))], body: body.into() }
}

/// As GitHub does.
pub fn github(body: &Value, secret: &str, event: &str, delivery: &str) -> Webhook {
    let body = body.to_string();
    let signature = hex(&sha256(secret, body.as_bytes()));
    let headers = vec![
        ("x-hub-signature-256", format!("sha256={signature}")),
        ("x-github-event", event.into()),
        ("x-github-delivery", delivery.into()),
    ];
    Webhook { headers, body: body.into() }
}

/// As Shopify does.
pub fn shopify(body: &Value, secret: &str, topic: &str, event: &str) -> Webhook {
    let body = body.to_string();
    let signature = STANDARD.encode(sha256(secret, body.as_bytes()));
    let headers = vec![
        ("x-shopify-hmac-sha256", signature),
        ("x-shopify-topic", topic.into()),
        ("x-shopify-event-id", event.into()),
    ];
    Webhook { headers, body: body.into() }
}

/// As Slack does.
pub fn slack(body: &Value, secret: &str, at: Timestamp) -> Webhook {
    let (body, t) = (body.to_string(), seconds(at));
    let signature = hex(&sha256(secret, format!("v0:{t}:{body}").as_bytes()));
    let headers =
        vec![("x-slack-request-timestamp", t.to_string()), ("x-slack-signature", format!("v0={signature}"))];
    Webhook { headers, body: body.into() }
}

/// As the carrier of the example does.
pub fn carrier(body: &Value, secret: &str) -> Webhook {
    let body = body.to_string();
    let mut mac = Hmac::<Sha512>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    Webhook { headers: vec![("x-carrier-signature", format!("sha512={signature}"))], body: body.into() }
}

/// As the official crate of Standard Webhooks signs.
pub fn standard(body: &Value, secret: &str, id: &str, at: Timestamp) -> Webhook {
    let (body, t) = (body.to_string(), seconds(at));
    let signature = standardwebhooks::Webhook::new(secret).unwrap().sign(id, t, body.as_bytes()).unwrap();
    let headers = vec![
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", t.to_string()),
        ("webhook-signature", signature),
    ];
    Webhook { headers, body: body.into() }
}
