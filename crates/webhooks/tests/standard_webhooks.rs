//! The official crate verifies our signatures, and we accept its signatures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_webhooks::limits::MAX_SECRETS;
use hapax_webhooks::{
    BadSecret, MessageId, Scheme, SigningSecret, Unsignable, VerificationError, Verifier, sign,
};
use http::HeaderMap;
use proptest::prelude::*;
use secrecy::ExposeSecret;
use standardwebhooks::Webhook;

fn revealed(secret: &SigningSecret) -> String {
    secret.reveal().expose_secret().to_string()
}

fn id(text: &str) -> MessageId {
    MessageId::new(text).unwrap()
}

/// Issue 6: the official crate verifies our signatures, including its own time check.
#[test]
fn the_official_crate_verifies_what_we_send() {
    let secret = SigningSecret::generate().unwrap();
    let body = br#"{"type":"run.completed","data":{"id":"r_1"}}"#;
    let headers =
        sign(std::slice::from_ref(&secret), &id("msg_1"), SystemTime::now(), body).unwrap().to_headers();
    let official = Webhook::new(&revealed(&secret)).unwrap();
    official.verify(body, &headers).unwrap();
    assert!(official.verify(b"{}", &headers).is_err());
}

#[test]
fn while_secrets_are_rotated_a_receiver_with_either_is_served() {
    let [old, new] = [(); 2].map(|()| SigningSecret::generate().unwrap());
    let headers = sign(&[new.clone(), old.clone()], &id("m"), SystemTime::now(), b"{}").unwrap().to_headers();
    for secret in [&old, &new] {
        Webhook::new(&revealed(secret)).unwrap().verify(b"{}", &headers).unwrap();
    }
    let stranger = SigningSecret::generate().unwrap();
    assert!(Webhook::new(&revealed(&stranger)).unwrap().verify(b"{}", &headers).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Issue 6: both produce the same signature for any secret, id, time and bytes (the official crate uses only its
    /// own clock).
    #[test]
    fn each_side_accepts_what_the_other_signs(
        name in "[!-\\-/-~]{1,255}",
        seconds in 1u64..4_000_000_000,
        body in ".{0,200}",
        altered in any::<prop::sample::Index>(),
    ) {
        let secret = SigningSecret::generate().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        let official = Webhook::new(&revealed(&secret)).unwrap();
        let ours = sign(std::slice::from_ref(&secret), &id(&name), now, body.as_bytes()).unwrap();

        let signature = official.sign(&name, i64::try_from(seconds).unwrap(), body.as_bytes()).unwrap();
        prop_assert_eq!(&signature, &ours.signature);
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", name.parse().unwrap());
        headers.insert("webhook-timestamp", seconds.to_string().parse().unwrap());
        headers.insert("webhook-signature", signature.parse().unwrap());
        let verifier = Verifier::new(Scheme::StandardWebhooks, &[revealed(&secret)]).unwrap();
        prop_assert_eq!(verifier.verify(&headers, body.as_bytes(), now), Ok(()));
        let mut bytes = body.into_bytes();
        bytes.push(b'.');
        let place = altered.index(bytes.len());
        bytes[place] ^= 1;
        prop_assert_eq!(verifier.verify(&headers, &bytes, now), Err(VerificationError::NoMatch));
    }

    /// RELIABILITY, webhooks in: any input gets an answer and never causes a panic.
    #[test]
    fn no_header_makes_a_verifier_stumble(
        value in prop::collection::vec(0x20u8..=0xff, 0..300),
        body in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let Ok(value) = http::HeaderValue::from_bytes(&value) else { return Ok(()) };
        for scheme in [Scheme::StandardWebhooks, Scheme::Stripe, Scheme::GitHub, Scheme::Slack] {
            let secret = revealed(&SigningSecret::generate().unwrap());
            let mut headers = HeaderMap::new();
            headers.insert("webhook-id", "m".parse().unwrap());
            headers.insert("webhook-timestamp", "1".parse().unwrap());
            headers.insert("x-slack-request-timestamp", "1".parse().unwrap());
            headers.insert(scheme.signature_header().unwrap(), value.clone());
            let verifier = Verifier::new(scheme, &[secret]).unwrap();
            prop_assert!(verifier.verify(&headers, &body, UNIX_EPOCH).is_err());
        }
    }
}

#[test]
fn a_secret_is_random_and_shown_only_when_asked_for() {
    let (one, other) = (SigningSecret::generate().unwrap(), SigningSecret::generate().unwrap());
    assert_ne!(revealed(&one), revealed(&other));
    assert_eq!(revealed(&one).len(), "whsec_".len() + 44);
    assert_eq!(format!("{one:?} {:?}", one.reveal()).matches(&revealed(&one)[6..]).count(), 0);
    assert_eq!(revealed(&SigningSecret::parse(&revealed(&one)).unwrap()), revealed(&one));
    assert_eq!(SigningSecret::parse("").unwrap_err(), BadSecret::Empty);
    assert_eq!(SigningSecret::parse("whsec_AAAA").unwrap_err(), BadSecret::NotStandard);
    assert_eq!(
        SigningSecret::parse(&format!("whsec_{}", "A".repeat(88))).unwrap_err(),
        BadSecret::NotStandard
    );
}

#[test]
fn nothing_is_signed_without_a_secret_or_with_a_clock_that_is_wrong() {
    let secret = SigningSecret::generate().unwrap();
    let (m, now) = (id("m"), UNIX_EPOCH);
    assert_eq!(sign(&[], &m, now, b""), Err(Unsignable::NoSecret));
    assert_eq!(sign(&vec![secret.clone(); MAX_SECRETS + 1], &m, now, b""), Err(Unsignable::TooManySecrets));
    assert_eq!(sign(&[secret], &m, now - Duration::from_secs(1), b""), Err(Unsignable::Clock));
}

/// Invariant 52: all attempts have one id, whatever the key of the after-effect looks like.
#[test]
fn the_id_of_a_message_comes_from_its_key_alone() {
    let key = "0190b3c2-0000-7000-8000-000000000000:notify.3";
    let message = MessageId::from_key("w", key);
    assert_eq!(message, MessageId::from_key("w", key));
    assert_ne!(message, MessageId::from_key("v", key));
    assert_ne!(MessageId::from_key("a", "bc"), MessageId::from_key("ab", "c"));
    assert!(MessageId::new(message.as_str()).is_ok());
    assert_eq!(message.as_str(), "msg_5fe04ccb3afde24f11d951b48c90cb33");
    for bad in ["", "a.b", "a b", "é", "a\n", &"m".repeat(256)] {
        assert!(MessageId::new(bad).is_err(), "{bad:?}");
    }
}
