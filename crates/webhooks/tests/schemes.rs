//! The providers' own examples are accepted, and a table of forgeries is rejected.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_webhooks::limits::{MAX_SECRETS, MAX_SIGNATURES, TOLERANCE};
use hapax_webhooks::{
    Algorithm, BadSecret, BadSecrets, Encoding, HmacScheme, Scheme, VerificationError, Verifier,
};
use http::{HeaderMap, HeaderName, HeaderValue};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), value);
    }
    headers
}

/// A valid webhook.
struct ValidWebhook {
    scheme: Scheme,
    secret: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
    signed_at: u64,
}

fn hmac(header: &'static str, algorithm: Algorithm, encoding: Encoding, prefix: &str) -> Scheme {
    let header = HeaderName::from_static(header);
    Scheme::Hmac(HmacScheme { header, algorithm, encoding, prefix: prefix.to_string() })
}

/// The examples in the providers' documentation. Where an example has no secret, it was made with `openssl dgst -hmac`.
fn genuine() -> Vec<ValidWebhook> {
    vec![
        ValidWebhook {
            scheme: Scheme::StandardWebhooks,
            secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            headers: vec![
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                ("webhook-timestamp", "1614265330"),
                ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ],
            body: r#"{"test": 2432232314}"#,
            signed_at: 1_614_265_330,
        },
        ValidWebhook {
            scheme: Scheme::Stripe,
            secret: "whsec_test_secret",
            headers: vec![(
                "stripe-signature",
                "t=1492774577,v1=654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
            )],
            body: r#"{"id":"evt_1","object":"event"}"#,
            signed_at: 1_492_774_577,
        },
        ValidWebhook {
            scheme: Scheme::GitHub,
            secret: "It's a Secret to Everybody",
            headers: vec![(
                "x-hub-signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            )],
            body: "Hello, World!",
            signed_at: 0,
        },
        ValidWebhook {
            scheme: Scheme::Slack,
            secret: "8f742231b10e8888abcd99yyyzzz85a5",
            headers: vec![
                ("x-slack-request-timestamp", "1531420618"),
                ("x-slack-signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
            ],
            body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
            signed_at: 1_531_420_618,
        },
        ValidWebhook {
            scheme: hmac("x-shopify-hmac-sha256", Algorithm::Sha256, Encoding::Base64, ""),
            secret: "hush",
            headers: vec![("x-shopify-hmac-sha256", "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=")],
            body: r#"{"id":820982911946154508}"#,
            signed_at: 0,
        },
        ValidWebhook {
            scheme: hmac("x-hub-signature", Algorithm::Sha1, Encoding::Hex, "sha1="),
            secret: "hush",
            headers: vec![("x-hub-signature", "sha1=cc72288632ae6f8eb21b7511f7d989d5a74e1601")],
            body: "Hello, World!",
            signed_at: 0,
        },
        ValidWebhook {
            scheme: hmac("x-sig", Algorithm::Sha512, Encoding::Hex, ""),
            secret: "hush",
            headers: vec![(
                "x-sig",
                "2dda99cfbb6555b7332187c18a0b3c99878e442cde51e2474e32b1816bb6b5fa501327daa7bf1c9ad6b3e1dc271afd644444287b094ad4b28cb632f9c2265ef8",
            )],
            body: "Hello, World!",
            signed_at: 0,
        },
    ]
}

impl ValidWebhook {
    fn verify(&self) -> Result<(), VerificationError> {
        self.verify_with(&[self.secret], &self.headers, self.body.as_bytes(), self.signed_at)
    }

    fn verify_with(
        &self,
        secrets: &[&str],
        given: &[(&str, &str)],
        body: &[u8],
        now: u64,
    ) -> Result<(), VerificationError> {
        let verifier = Verifier::new(self.scheme.clone(), secrets).unwrap();
        verifier.verify(&headers(given), body, at(now))
    }
}

#[test]
fn the_examples_of_the_providers_are_believed() {
    for genuine in genuine() {
        assert_eq!(genuine.verify(), Ok(()), "{:?}", genuine.scheme);
    }
}

/// RELIABILITY, webhooks in: several secrets for rotation.
#[test]
fn any_of_several_secrets_may_have_signed() {
    let others = ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oE"];
    for genuine in genuine() {
        let [first, second] = others;
        for secrets in [
            [genuine.secret, first, second],
            [first, genuine.secret, second],
            [first, second, genuine.secret],
        ] {
            let told =
                genuine.verify_with(&secrets, &genuine.headers, genuine.body.as_bytes(), genuine.signed_at);
            assert_eq!(told, Ok(()), "{:?}", genuine.scheme);
        }
        let told = genuine.verify_with(&others, &genuine.headers, genuine.body.as_bytes(), genuine.signed_at);
        assert_eq!(told, Err(VerificationError::NoMatch), "{:?}", genuine.scheme);
    }
}

#[test]
fn one_altered_byte_anywhere_is_noticed() {
    for genuine in genuine() {
        let body = genuine.body.as_bytes();
        for place in [0, body.len() / 2, body.len() - 1] {
            let mut altered = body.to_vec();
            altered[place] ^= 1;
            let told = genuine.verify_with(&[genuine.secret], &genuine.headers, &altered, genuine.signed_at);
            assert_eq!(told, Err(VerificationError::NoMatch), "{:?}", genuine.scheme);
        }
        for altered in [&body[1..], &body[..body.len() - 1], &[body, b"\n"].concat(), b""] {
            let told = genuine.verify_with(&[genuine.secret], &genuine.headers, altered, genuine.signed_at);
            assert_eq!(told, Err(VerificationError::NoMatch), "{:?}", genuine.scheme);
        }
    }
}

/// RELIABILITY, webhooks in: tolerance 5 min both ways.
#[test]
fn old_and_future_signatures_are_refused() {
    for genuine in genuine().into_iter().filter(|genuine| genuine.scheme.has_timestamp()) {
        let verify =
            |now| genuine.verify_with(&[genuine.secret], &genuine.headers, genuine.body.as_bytes(), now);
        let (signed_at, tolerance) = (genuine.signed_at, TOLERANCE.as_secs());
        assert_eq!(tolerance, 300);
        assert_eq!(verify(signed_at + tolerance), Ok(()));
        assert_eq!(verify(signed_at - tolerance), Ok(()));
        let late = signed_at + tolerance + 1;
        assert_eq!(verify(late), Err(VerificationError::Stale { seconds: 301 }), "{:?}", genuine.scheme);
        let early = signed_at - tolerance - 1;
        assert_eq!(
            verify(early),
            Err(VerificationError::FromTheFuture { seconds: 301 }),
            "{:?}",
            genuine.scheme
        );
        // The timestamp is signed, so a different one is rejected.
        let moved: Vec<(&str, String)> = genuine
            .headers
            .iter()
            .map(|(name, value)| (*name, value.replace(&signed_at.to_string(), &late.to_string())))
            .collect();
        let moved: Vec<(&str, &str)> = moved.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let told = genuine.verify_with(&[genuine.secret], &moved, genuine.body.as_bytes(), late);
        assert_eq!(told, Err(VerificationError::NoMatch), "{:?}", genuine.scheme);
    }
}

#[test]
fn missing_doubled_and_overlong_headers_are_refused() {
    for genuine in genuine() {
        for (place, (name, value)) in genuine.headers.iter().enumerate() {
            let header = name.parse::<HeaderName>().unwrap();
            let verify = |given: &[(&str, &str)]| {
                genuine.verify_with(&[genuine.secret], given, genuine.body.as_bytes(), genuine.signed_at)
            };
            let mut without = genuine.headers.clone();
            without.remove(place);
            assert_eq!(verify(&without), Err(VerificationError::MissingHeader { name: header.clone() }));
            let mut twice = genuine.headers.clone();
            twice.push((name, value));
            assert_eq!(verify(&twice), Err(VerificationError::RepeatedHeader { name: header.clone() }));
            let long = "1".repeat(5_000);
            let mut overlong = genuine.headers.clone();
            overlong[place].1 = &long;
            let told = verify(&overlong).unwrap_err();
            assert!(matches!(told, VerificationError::TooLong { .. }), "{name}: {told:?}");
        }
    }
}

#[test]
fn garbage_in_a_header_is_refused_and_never_repeated() {
    let garbage = [
        "",
        " ",
        "=",
        ",",
        "t=",
        "v1,",
        "v1",
        "sha256=",
        "v0=",
        "t=1,v1=zz",
        "t=-1,v1=00",
        "t=1,t=1,v1=00",
        "v1=00",
        "v1,!!!!",
        "v1,AAAA",
        "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "sha256=0",
        "sha256=é",
        "\u{7f}é",
        "+5",
        "0x10",
        "1 2",
        "canary",
    ];
    for genuine in genuine() {
        for (place, (name, _)) in genuine.headers.iter().enumerate() {
            for garbage in garbage {
                let Ok(value) = HeaderValue::from_bytes(garbage.as_bytes()) else { continue };
                let mut given = headers(&genuine.headers);
                given.insert(name.parse::<HeaderName>().unwrap(), value);
                let verifier = Verifier::new(genuine.scheme.clone(), &[genuine.secret]).unwrap();
                let told = verifier.verify(&given, genuine.body.as_bytes(), at(genuine.signed_at));
                let told = told.expect_err(&format!("{name}: {garbage}"));
                assert!(!told.to_string().contains("canary"), "{told}");
                let is_other_id = *name == "webhook-id" && told == VerificationError::NoMatch;
                let is_refused = ["malformed", "too_long"].contains(&told.code());
                assert!(is_other_id || is_refused, "{place} {name}: {garbage:?}: {told:?}");
            }
        }
    }
}

/// RELIABILITY, webhooks in: an id must not contain `.`, which could otherwise take over part of the signed text.
#[test]
fn an_id_has_no_dots_and_no_spaces() {
    let genuine = &genuine()[0];
    for id in ["a.1614265330.b", "a b", "."] {
        let mut given = genuine.headers.clone();
        given[0].1 = id;
        let told = genuine.verify_with(&[genuine.secret], &given, genuine.body.as_bytes(), genuine.signed_at);
        assert_eq!(told.unwrap_err().code(), "malformed", "{id}");
    }
}

#[test]
fn one_good_signature_among_several_is_enough() {
    let [standard, stripe, ..] = &genuine()[..] else { panic!("there are examples") };
    let good = standard.headers[2].1;
    let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for signatures in
        [format!("{wrong} {good}"), format!("{good} {wrong}"), format!("v1a,xyz v1,short {good}")]
    {
        let mut given = standard.headers.clone();
        given[2].1 = &signatures;
        let told =
            standard.verify_with(&[standard.secret], &given, standard.body.as_bytes(), standard.signed_at);
        assert_eq!(told, Ok(()), "{signatures}");
    }
    let good = stripe.headers[0].1;
    for value in
        [format!("{good},v1={}", "0".repeat(64)), good.replace(",v1", &format!(",v1={},v1", "0".repeat(64)))]
    {
        let given = [("stripe-signature", value.as_str())];
        let told = stripe.verify_with(&[stripe.secret], &given, stripe.body.as_bytes(), stripe.signed_at);
        assert_eq!(told, Ok(()), "{value}");
    }
    let many = format!("{good}{}", format!(",v1={}", "0".repeat(64)).repeat(MAX_SIGNATURES));
    let given = [("stripe-signature", many.as_str())];
    let told = stripe.verify_with(&[stripe.secret], &given, stripe.body.as_bytes(), stripe.signed_at);
    assert_eq!(told.unwrap_err().code(), "malformed");
}

#[test]
fn secrets_that_would_let_anybody_in_are_refused_and_never_shown() {
    for genuine in genuine() {
        let new = |secrets: &[&str]| Verifier::new(genuine.scheme.clone(), secrets).map(|_| ()).unwrap_err();
        assert_eq!(new(&[]), BadSecrets::None);
        assert_eq!(new(&[genuine.secret, ""]), BadSecrets::Unusable { index: 1, why: BadSecret::Empty });
        let trailing = format!("{}\n", genuine.secret);
        assert_eq!(new(&[&trailing]), BadSecrets::Unusable { index: 0, why: BadSecret::Whitespace });
        assert_eq!(new(&[genuine.secret; MAX_SECRETS + 1]), BadSecrets::TooMany);
        let verifier = Verifier::new(genuine.scheme.clone(), &[genuine.secret]).unwrap();
        let shown = format!("{verifier:?}");
        assert!(!shown.contains(genuine.secret) && !shown.contains("104, 117, 115, 104"), "{shown}");
    }
    for bad in ["whsec_", "whsec_short", "whsec_!!!!", "hush"] {
        assert!(Verifier::new(Scheme::StandardWebhooks, &[bad]).is_err(), "{bad}");
    }
}

#[test]
fn unsigned_webhooks_are_accepted_only_without_secrets() {
    let verifier = Verifier::new(Scheme::Unsigned, &[] as &[&str]).unwrap();
    assert_eq!(verifier.verify(&HeaderMap::new(), b"x", at(0)), Ok(()));
    assert_eq!(Verifier::new(Scheme::Unsigned, &["s"]).map(|_| ()).unwrap_err(), BadSecrets::NotUsed);
}
