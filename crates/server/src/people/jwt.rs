//! Signed tokens (JWT): parsing, signatures and claims. Pure: keys and the time are given.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits::{MAX_IDENTITY_KEYS, MAX_SUBJECT_CHARS, MAX_TOKEN_BYTES, TOKEN_CLOCK_SKEW};

/// Signature algorithms that count. All are asymmetric, so that no public key can be taken for a shared secret, and
/// `none` is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    const ALL: [(&str, Algorithm); 9] = [
        ("RS256", Algorithm::Rs256),
        ("RS384", Algorithm::Rs384),
        ("RS512", Algorithm::Rs512),
        ("PS256", Algorithm::Ps256),
        ("PS384", Algorithm::Ps384),
        ("PS512", Algorithm::Ps512),
        ("ES256", Algorithm::Es256),
        ("ES384", Algorithm::Es384),
        ("EdDSA", Algorithm::EdDsa),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, algorithm)| algorithm)
    }
}

/// Why a token does not count. Callers learn only that it does not; the audit log has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("it is no token")]
    Malformed,
    #[error("its algorithm is not accepted")]
    Algorithm,
    #[error("it is signed with an unknown key")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is from another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYet,
    #[error("it belongs to another sign-in")]
    Nonce,
    #[error("it names nobody")]
    Subject,
}

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

/// A token whose signature is not checked yet.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    signed: &'a str,
    header: Header,
    algorithm: Algorithm,
    signature: Vec<u8>,
    claims: Map<String, Value>,
}

/// Does the text look like a token, rather than like an API key?
pub(crate) fn looks_like_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> Token<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, BadToken> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(BadToken::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(BadToken::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(BadToken::Malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| BadToken::Malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| BadToken::Malformed)?;
        let algorithm = Algorithm::named(&header.alg).ok_or(BadToken::Algorithm)?;
        // Extensions that must be understood are not.
        if header.crit.is_some() {
            return Err(BadToken::Malformed);
        }
        // A logout token, or any other kind, is no proof of who asks.
        let kind = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
        if !["jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str()) {
            return Err(BadToken::Malformed);
        }
        let claims = serde_json::from_slice(&decode(claims)?).map_err(|_| BadToken::Malformed)?;
        Ok(Token { signed, header, algorithm, signature: decode(signature)?, claims })
    }

    /// Issuer that the token claims. It counts only after [`Token::verify`].
    pub(crate) fn claimed_issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// Audiences that the token claims. They count only after [`Token::verify`].
    pub(crate) fn claimed_audiences(&self) -> Vec<&str> {
        audiences(&self.claims)
    }

    /// Returns the claims if one of the keys signed the token and it is as expected.
    pub(crate) fn verify(
        self,
        keys: &[Key],
        expected: &Expected<'_>,
        now_seconds: i64,
    ) -> Result<Map<String, Value>, BadToken> {
        let fitting = |key: &&Key| match &self.header.kid {
            Some(id) => key.id.as_ref() == Some(id),
            None => true,
        };
        let mut candidates = keys.iter().filter(fitting).filter(|key| key.is_for(self.algorithm)).peekable();
        if candidates.peek().is_none() {
            // A key of this name with another algorithm is a trick, and not a reason to look for new keys.
            let is_known = self.header.kid.is_some() && keys.iter().any(|key| key.id == self.header.kid);
            return Err(if is_known { BadToken::Algorithm } else { BadToken::UnknownKey });
        }
        if !candidates.any(|key| key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature)) {
            return Err(BadToken::Signature);
        }
        expected.check(&self.claims, now_seconds)?;
        Ok(self.claims)
    }

    /// Does the token name no key? Then an unknown signature may belong to a new key.
    pub(crate) fn names_no_key(&self) -> bool {
        self.header.kid.is_none()
    }
}

/// Required values of the claims.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    /// One of these must be an audience.
    pub(crate) audiences: &'a [String],
    /// For the token of a sign-in: its nonce, and the client that it must be for.
    pub(crate) sign_in: Option<SignInOf<'a>>,
}

/// A sign-in that a token must belong to.
#[derive(Debug)]
pub(crate) struct SignInOf<'a> {
    pub(crate) nonce: &'a str,
    pub(crate) client_id: &'a str,
}

impl Expected<'_> {
    fn check(&self, claims: &Map<String, Value>, now: i64) -> Result<(), BadToken> {
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer) {
            return Err(BadToken::Issuer);
        }
        let given = audiences(claims);
        if !given.iter().any(|audience| self.audiences.iter().any(|known| known == audience)) {
            return Err(BadToken::Audience);
        }
        if let Some(sign_in) = &self.sign_in {
            let party = claims.get("azp").and_then(Value::as_str);
            // With several audiences the token must say for which client it was made.
            if party.map_or(given.len() > 1, |party| party != sign_in.client_id) {
                return Err(BadToken::Audience);
            }
            if claims.get("nonce").and_then(Value::as_str) != Some(sign_in.nonce) {
                return Err(BadToken::Nonce);
            }
        }
        let skew = i64::try_from(TOKEN_CLOCK_SKEW.as_secs()).unwrap_or(0);
        let seconds = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|it| it.is_finite())
                .map(|it| Some(it as i64))
                .ok_or(BadToken::Malformed),
        };
        let expires_at = seconds("exp")?.ok_or(BadToken::Expired)?;
        if now >= expires_at.saturating_add(skew) {
            return Err(BadToken::Expired);
        }
        for name in ["nbf", "iat"] {
            if seconds(name)?.is_some_and(|from| now < from.saturating_sub(skew)) {
                return Err(BadToken::NotYet);
            }
        }
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if subject.is_empty() || subject.chars().count() > MAX_SUBJECT_CHARS {
            return Err(BadToken::Subject);
        }
        Ok(())
    }
}

fn audiences(claims: &Map<String, Value>) -> Vec<&str> {
    match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A public key of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug, Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl Key {
    /// Reads the keys of a set that can verify signatures; others are left out.
    pub(crate) fn read_set(json: &[u8]) -> Result<Vec<Key>, BadToken> {
        let set: KeySet = serde_json::from_slice(json).map_err(|_| BadToken::Malformed)?;
        let keys = set.keys.into_iter().take(MAX_IDENTITY_KEYS);
        let mut seen = HashSet::new();
        let keys = keys.filter_map(|key| Key::read(serde_json::from_value(key).ok()?));
        // Two keys of one name would make it a matter of luck which one counts.
        Ok(keys.filter(|key| key.id.as_ref().is_none_or(|id| seen.insert(id.clone()))).collect())
    }

    fn read(key: Jwk) -> Option<Key> {
        let verifies = |ops: &Vec<String>| ops.iter().any(|op| op == "verify");
        if key.usage.as_deref().is_some_and(|usage| usage != "sig")
            || key.key_ops.as_ref().is_some_and(|ops| !verifies(ops))
        {
            return None;
        }
        let algorithm = match &key.alg {
            None => None,
            Some(name) => Some(Algorithm::named(name)?),
        };
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let point = |bytes: usize| {
            let (x, y) = (decode(&key.x)?, decode(&key.y)?);
            (x.len() == bytes && y.len() == bytes).then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (key.kty.as_str(), key.crv.as_str()) {
            ("RSA", _) => {
                let without_zeros =
                    |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
                Material::Rsa {
                    modulus: without_zeros(decode(&key.n)?),
                    exponent: without_zeros(decode(&key.e)?),
                }
            }
            ("EC", "P-256") => Material::P256(point(32)?),
            ("EC", "P-384") => Material::P384(point(48)?),
            ("OKP", "Ed25519") => Material::Ed25519(decode(&key.x).filter(|x| x.len() == 32)?),
            _ => return None,
        };
        Some(Key { id: key.kid, algorithm, material })
    }

    /// May the key verify this algorithm?
    fn is_for(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let fits = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
        };
        fits && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], given: &[u8]) -> bool {
        let curve = |of: &'static EcdsaVerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(of, point).verify(message, given).is_ok()
        };
        match &self.material {
            Material::Rsa { modulus, exponent } => {
                let Some(parameters) = rsa(algorithm) else { return false };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, given).is_ok()
            }
            Material::P256(point) => curve(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => curve(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, given).is_ok()
            }
        }
    }
}

/// Parameters of the RSA algorithms; each takes keys of 2,048 bits and more.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    struct Signer {
        pair: EcdsaKeyPair,
        random: SystemRandom,
    }

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let pair =
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
            Signer { pair, random }
        }

        fn jwk(&self, id: &str) -> Value {
            let point = self.pair.public_key().as_ref();
            let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
            json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "alg": "ES256", "x": x, "y": y })
        }

        fn keys(&self) -> Vec<Key> {
            Key::read_set(json!({ "keys": [self.jwk("k1")] }).to_string().as_bytes()).unwrap()
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", encode(header), encode(claims));
            let signature = self.pair.sign(&self.random, signed.as_bytes()).unwrap();
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    fn claims() -> Value {
        json!({ "iss": "https://issuer", "aud": "api", "sub": "ada", "exp": NOW + 60, "iat": NOW })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = claims();
        claims[name] = value;
        claims
    }

    fn judge(signer: &Signer, token: &str) -> Result<Map<String, Value>, BadToken> {
        let audiences = ["api".to_owned()];
        let expected = Expected { issuer: "https://issuer", audiences: &audiences, sign_in: None };
        Token::parse(token)?.verify(&signer.keys(), &expected, NOW)
    }

    #[test]
    fn a_token_counts_if_everything_about_it_is_right() {
        let signer = Signer::new();
        let header = json!({ "alg": "ES256", "kid": "k1", "typ": "at+jwt" });
        let good = judge(&signer, &signer.sign(&header, &claims())).unwrap();
        assert_eq!(good["sub"], "ada");
        for (name, value, why) in [
            ("iss", json!("https://other"), BadToken::Issuer),
            ("iss", Value::Null, BadToken::Issuer),
            ("aud", json!(["other", "apis"]), BadToken::Audience),
            ("aud", Value::Null, BadToken::Audience),
            ("exp", json!(NOW - 61), BadToken::Expired),
            ("exp", json!("soon"), BadToken::Malformed),
            ("nbf", json!(NOW + 120), BadToken::NotYet),
            ("iat", json!(NOW + 120), BadToken::NotYet),
            ("sub", json!(""), BadToken::Subject),
            ("sub", json!("x".repeat(256)), BadToken::Subject),
        ] {
            let token = signer.sign(&header, &with(name, value.clone()));
            assert_eq!(judge(&signer, &token).unwrap_err(), why, "{name} {value}");
        }
        let mut endless = claims();
        endless.as_object_mut().unwrap().remove("exp");
        assert_eq!(judge(&signer, &signer.sign(&header, &endless)).unwrap_err(), BadToken::Expired);
        let among = signer.sign(&header, &with("aud", json!(["other", "api"])));
        assert!(judge(&signer, &among).is_ok());
    }

    /// RFC 8725: an algorithm is never taken from the token alone.
    #[test]
    fn no_algorithm_is_mistaken_for_another() {
        let signer = Signer::new();
        for (header, why) in [
            (json!({ "alg": "none", "kid": "k1" }), BadToken::Algorithm),
            (json!({ "alg": "None" }), BadToken::Algorithm),
            (json!({ "alg": "HS256", "kid": "k1" }), BadToken::Algorithm),
            (json!({ "alg": "RS256", "kid": "k1" }), BadToken::Algorithm),
            (json!({ "alg": "ES384", "kid": "k1" }), BadToken::Algorithm),
            (json!({ "alg": "ES256", "kid": "k2" }), BadToken::UnknownKey),
            (json!({ "alg": "ES256", "kid": "k1", "crit": ["exp"] }), BadToken::Malformed),
            (json!({ "alg": "ES256", "kid": "k1", "typ": "logout+jwt" }), BadToken::Malformed),
            (json!({ "kid": "k1" }), BadToken::Malformed),
        ] {
            assert_eq!(judge(&signer, &signer.sign(&header, &claims())).unwrap_err(), why, "{header}");
        }
        let header = json!({ "alg": "ES256", "kid": "k1" });
        let other = Signer::new();
        assert_eq!(judge(&signer, &other.sign(&header, &claims())).unwrap_err(), BadToken::Signature);
        let good = signer.sign(&header, &claims());
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let (head, _) = signed.split_once('.').unwrap();
        let forged = URL_SAFE_NO_PAD.encode(with("sub", json!("eve")).to_string());
        for broken in [format!("{head}.{forged}.{signature}"), format!("{signed}."), format!("{signed}.AAAA")]
        {
            assert_eq!(judge(&signer, &broken).unwrap_err(), BadToken::Signature, "{broken}");
        }
        for junk in ["", "a.b", "eyJ.eyJ.x", &format!("{good}="), &good.repeat(200)] {
            assert_eq!(judge(&signer, junk).unwrap_err(), BadToken::Malformed, "{junk:.40}");
        }
    }

    #[test]
    fn the_token_of_a_sign_in_is_for_this_client_and_this_sign_in() {
        let signer = Signer::new();
        let audiences = ["client".to_owned()];
        let judge = |claims: &Value| {
            let token = signer.sign(&json!({ "alg": "ES256", "kid": "k1" }), claims);
            let sign_in = Some(SignInOf { nonce: "n1", client_id: "client" });
            let expected = Expected { issuer: "https://issuer", audiences: &audiences, sign_in };
            Token::parse(&token).unwrap().verify(&signer.keys(), &expected, NOW).map(|_| ())
        };
        let mut claims = with("aud", json!("client"));
        assert_eq!(judge(&claims), Err(BadToken::Nonce), "no nonce");
        claims["nonce"] = json!("n2");
        assert_eq!(judge(&claims), Err(BadToken::Nonce));
        claims["nonce"] = json!("n1");
        assert_eq!(judge(&claims), Ok(()));
        claims["azp"] = json!("other");
        assert_eq!(judge(&claims), Err(BadToken::Audience));
        claims["azp"] = Value::Null;
        claims["aud"] = json!(["client", "other"]);
        assert_eq!(judge(&claims), Err(BadToken::Audience), "several audiences need a party");
        claims["azp"] = json!("client");
        assert_eq!(judge(&claims), Ok(()));
    }

    #[test]
    fn keys_that_do_not_verify_signatures_are_left_out() {
        let signer = Signer::new();
        let sound = signer.jwk("k1");
        let changed = |name: &str, value: Value| {
            let mut key = sound.clone();
            key[name] = value;
            key
        };
        let others = [
            changed("use", json!("enc")),
            changed("key_ops", json!(["sign"])),
            changed("alg", json!("HS256")),
            changed("crv", json!("secp256k1")),
            changed("kty", json!("oct")),
            changed("x", json!("AA")),
            json!(5),
            json!({}),
        ];
        for other in others {
            let set = json!({ "keys": [other] }).to_string();
            assert_eq!(Key::read_set(set.as_bytes()).unwrap(), Vec::new(), "{set}");
        }
        let twice = json!({ "keys": [sound, Signer::new().jwk("k1")] }).to_string();
        assert_eq!(Key::read_set(twice.as_bytes()).unwrap().len(), 1);
        assert!(Key::read_set(b"[]").is_err());
    }
}
