//! Ed25519 signatures (`v1a`), the asymmetric signatures of Standard Webhooks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_webhooks::{
    BadSecret, BadSecrets, MessageId, PublicKey, Scheme, SigningSecret, VerificationError, Verifier, sign,
};
use http::HeaderMap;
use secrecy::ExposeSecret;

/// Signatures of another implementation, the Svix server. Ed25519 signatures are deterministic.
const PRIVATE: &str =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SIGNED_AT: u64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn headers(signature: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", ID.parse().unwrap());
    headers.insert("webhook-timestamp", SIGNED_AT.to_string().parse().unwrap());
    headers.insert("webhook-signature", signature.parse().unwrap());
    headers
}

fn verifier(secrets: &[&str]) -> Verifier {
    Verifier::new(Scheme::StandardWebhooks, secrets).unwrap()
}

#[test]
fn what_another_implementation_signed_is_believed_and_nothing_else() {
    let believed =
        |signature: &str, body: &[u8], now| verifier(&[PUBLIC]).verify(&headers(signature), body, at(now));
    assert_eq!(believed(SIGNATURE, BODY, SIGNED_AT), Ok(()));
    assert_eq!(believed(&format!("v1,AAAA {SIGNATURE} v2,x"), BODY, SIGNED_AT), Ok(()));
    assert_eq!(believed(SIGNATURE, br#"{"test": 2432232315}"#, SIGNED_AT), Err(VerificationError::NoMatch));
    assert_eq!(believed(SIGNATURE, BODY, SIGNED_AT + 301), Err(VerificationError::Stale { seconds: 301 }));
    let other = SIGNATURE.replace("hnO3", "hnO4");
    assert_eq!(believed(&other, BODY, SIGNED_AT), Err(VerificationError::NoMatch));
    // The version determines the kind of key: a public key used as a shared secret would let anyone
    // sign.
    let as_shared = SigningSecret::parse(&PUBLIC.replace("whpk_", "whsec_")).unwrap();
    let forged = sign(&[as_shared], &MessageId::new(ID).unwrap(), at(SIGNED_AT), BODY).unwrap();
    assert_eq!(believed(&forged.signature, BODY, SIGNED_AT), Err(VerificationError::NoMatch));
    assert!(matches!(believed("v1a,AAAA", BODY, SIGNED_AT), Err(VerificationError::Malformed { .. })));
}

#[test]
fn what_is_signed_here_is_what_another_implementation_signs() {
    let secret = SigningSecret::parse(PRIVATE).unwrap();
    assert_eq!(secret.public_key().unwrap().to_string(), PUBLIC);
    let signed = sign(&[secret], &MessageId::new(ID).unwrap(), at(SIGNED_AT), BODY).unwrap();
    assert_eq!(signed.signature, SIGNATURE);
}

#[test]
fn a_fresh_pair_signs_and_only_its_public_half_is_needed_to_check() {
    let (old, new) = (SigningSecret::generate_pair().unwrap(), SigningSecret::generate_pair().unwrap());
    let shared = SigningSecret::generate().unwrap();
    let secrets = [new.clone(), old.clone(), shared.clone()];
    let signed = sign(&secrets, &MessageId::new(ID).unwrap(), at(SIGNED_AT), BODY).unwrap();
    let headers = signed.to_headers();
    for known in [old.public_key(), new.public_key()] {
        let known = known.unwrap().to_string();
        assert_eq!(verifier(&[&known]).verify(&headers, BODY, at(SIGNED_AT)), Ok(()), "{known}");
    }
    let shared = shared.reveal();
    assert_eq!(verifier(&[shared.expose_secret()]).verify(&headers, BODY, at(SIGNED_AT)), Ok(()));
    assert_eq!(verifier(&[PUBLIC]).verify(&headers, BODY, at(SIGNED_AT)), Err(VerificationError::NoMatch));
    let again = SigningSecret::parse(old.reveal().expose_secret()).unwrap();
    assert_eq!(again.public_key(), old.public_key());
    assert!(!format!("{old:?}").contains("wh"), "a secret is never printed");
}

#[test]
fn unusable_keys_are_reported() {
    let mixed = format!("{}AAAA", &PRIVATE[..PRIVATE.len() - 4]);
    for bad in ["whsk_", "whsk_AAAA", &PRIVATE.replace("whsk_6", "whsk_7"), &mixed] {
        assert_eq!(SigningSecret::parse(bad).err(), Some(BadSecret::NotAPair), "{bad}");
    }
    for bad in ["", "whpk_", "whpk_AAAA", PRIVATE] {
        assert_eq!(PublicKey::parse(bad).err(), Some(BadSecret::NotAPublicKey), "{bad}");
    }
    let of = |secret: &str| Verifier::new(Scheme::StandardWebhooks, &[secret]).err();
    let unusable = |why| Some(BadSecrets::Unusable { index: 0, why });
    assert_eq!(of(PRIVATE), unusable(BadSecret::Private), "whoever checks must not have it");
    assert_eq!(of("whpk_short"), unusable(BadSecret::NotAPublicKey));
}
