//! An OpenID Connect provider: a server of its own, with real keys, a sign-in page and the code flow with PKCE.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hapax_server::{PeopleOptions, ProviderOptions, RoleRule};
use http::{HeaderMap, StatusCode};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Role;

/// Only for tests; nothing else trusts them.
const RSA_KEYS: [&[u8]; 2] = [include_bytes!("keys/rsa-1.pkcs8"), include_bytes!("keys/rsa-2.pkcs8")];

/// Client id of this server at the provider.
pub const CLIENT: &str = "hapax";
/// Audience of tokens for the API.
pub const AUDIENCE: &str = "hapax-api";
const SECRET: &str = "client s3cret:+/";

enum SigningKey {
    Ec(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    fn ec() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        SigningKey::Ec(Box::new(pair.unwrap()))
    }

    fn rsa(number: usize) -> Self {
        SigningKey::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA_KEYS[number]).unwrap()))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            SigningKey::Ec(_) => "ES256",
            SigningKey::Rsa(_) => "RS256",
        }
    }

    fn jwk(&self, id: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            SigningKey::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": id, "x": x, "y": y })
            }
            SigningKey::Rsa(pair) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": encode(&parts.n), "e": encode(&parts.e) })
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            SigningKey::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            SigningKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }
}

/// A sign-in whose code waits to be exchanged.
struct Granted {
    challenge: String,
    redirect_uri: String,
    claims: Value,
}

struct Inner {
    url: String,
    /// The newest signs; all of them are published.
    keys: Vec<(String, SigningKey)>,
    codes: HashMap<String, Granted>,
    /// Claims of each person.
    people: HashMap<String, Value>,
    /// Claims that the next ID tokens have instead of the right ones.
    bent: Value,
    key_reads: usize,
    clock: fn() -> i64,
}

/// The provider. Everything about its tokens can be bent.
#[derive(Clone)]
pub struct IdentityProvider {
    inner: Arc<Mutex<Inner>>,
}

fn system_seconds() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

impl IdentityProvider {
    /// Starts on this machine, under a name that browsers count as another site than the server's address.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        let people = HashMap::from([
            ("ada", json!({ "sub": "u-ada", "email": "ada@acme.example", "groups": ["staff", "support"] })),
            ("grace", json!({ "sub": "u-grace", "email": "grace@acme.example", "groups": ["leads"] })),
            ("eve", json!({ "sub": "u-eve", "email": "eve@acme.example", "groups": ["staff"] })),
            ("alan", json!({ "sub": "u-alan", "email": "alan@acme.example", "groups": ["auditors"] })),
        ]);
        let inner = Inner {
            url,
            keys: vec![("key-1".into(), SigningKey::ec())],
            codes: HashMap::new(),
            people: people.into_iter().map(|(name, claims)| (name.to_owned(), claims)).collect(),
            bent: json!({}),
            key_reads: 0,
            clock: system_seconds,
        };
        let provider = IdentityProvider { inner: Arc::new(Mutex::new(inner)) };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            // A browser asks for it by itself, and logs an error if it is missing.
            .route("/favicon.ico", get(async || StatusCode::NO_CONTENT))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        provider
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.inner.lock().unwrap())
    }

    pub fn url(&self) -> String {
        self.with(|inner| inner.url.clone())
    }

    /// Settings of a server that trusts this provider. The server fills in its own address.
    pub fn settings(&self) -> PeopleOptions {
        let rule = |value: &str, role: Role| RoleRule {
            value: value.into(),
            workspace: "acme".into(),
            role,
            requester: None,
            payloads: value != "auditors",
        };
        PeopleOptions {
            public_url: String::new(),
            providers: vec![ProviderOptions {
                name: "corp".into(),
                label: Some("Corp".into()),
                issuer: self.url(),
                client_id: CLIENT.into(),
                client_secret_file: None,
                client_secret: Some(SecretString::from(SECRET)),
                scopes: ["openid", "email"].map(Into::into).into(),
                audiences: vec![AUDIENCE.into()],
                name_claim: "email".into(),
                role_claim: "groups".into(),
                rules: vec![
                    rule("leads", Role::Manager),
                    rule("support", Role::Operator),
                    rule("auditors", Role::Viewer),
                ],
            }],
        }
    }

    /// A new key signs from now on, and the old ones are gone.
    pub fn rotate(&self, id: &str) {
        self.with(|inner| inner.keys = vec![(id.into(), SigningKey::ec())]);
    }

    /// An RSA key signs from now on.
    pub fn use_rsa(&self, id: &str, number: usize) {
        self.with(|inner| inner.keys = vec![(id.into(), SigningKey::rsa(number))]);
    }

    /// The next ID tokens say this instead; a null leaves the claim out.
    pub fn bend(&self, claims: Value) {
        self.with(|inner| inner.bent = claims);
    }

    /// Changes the claims of a person.
    pub fn change(&self, person: &str, claim: &str, value: Value) {
        self.with(|inner| inner.people.get_mut(person).unwrap()[claim] = value);
    }

    /// How often the keys were read.
    pub fn key_reads(&self) -> usize {
        self.with(|inner| inner.key_reads)
    }

    /// An access token for the API, with some claims instead of the right ones.
    pub fn access_token(&self, person: &str, bent: &Value) -> String {
        self.with(|inner| {
            let mut claims = inner.people[person].clone();
            claims["aud"] = AUDIENCE.into();
            inner.sign(&json!({}), claims, bent)
        })
    }

    /// The same, with another header.
    pub fn access_token_with(&self, person: &str, header: &Value) -> String {
        self.with(|inner| {
            let mut claims = inner.people[person].clone();
            claims["aud"] = AUDIENCE.into();
            inner.sign(header, claims, &json!({}))
        })
    }

    /// Follows a departure as a person who signs in: the path and query that the browser comes back with.
    pub async fn sign_in(&self, departure: &str, person: &str) -> String {
        let client = super::client().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = client.get(format!("{departure}&login={person}")).send().await.unwrap();
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let (_, rest) = location.split_once("://").unwrap();
        rest[rest.find('/').unwrap()..].to_owned()
    }
}

impl Inner {
    fn sign(&self, header: &Value, mut claims: Value, bent: &Value) -> String {
        let (id, key) = self.keys.last().unwrap();
        let now = (self.clock)();
        claims["iss"] = self.url.clone().into();
        claims["iat"] = now.into();
        claims["exp"] = (now + 300).into();
        let mut head = json!({ "alg": key.algorithm(), "kid": id, "typ": "JWT" });
        for (changes, of) in [(bent, &mut claims), (header, &mut head)] {
            for (name, value) in changes.as_object().unwrap() {
                match value {
                    Value::Null => _ = of.as_object_mut().unwrap().remove(name),
                    value => of[name] = value.clone(),
                }
            }
        }
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&head), encode(&claims));
        let signature = key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

async fn describe(State(provider): State<IdentityProvider>) -> Json<Value> {
    let url = provider.url();
    Json(json!({
        "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/keys"), "response_types_supported": ["code"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

async fn keys(State(provider): State<IdentityProvider>) -> Json<Value> {
    provider.with(|inner| {
        inner.key_reads += 1;
        let keys: Vec<Value> = inner.keys.iter().map(|(id, key)| key.jwk(id)).collect();
        Json(json!({ "keys": keys }))
    })
}

type Fields = HashMap<String, String>;

/// The sign-in page; with `login`, what follows it.
async fn authorize(State(provider): State<IdentityProvider>, Query(asked): Query<Fields>) -> Response {
    let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let is_sound = field("client_id") == CLIENT
        && field("response_type") == "code"
        && field("code_challenge_method") == "S256"
        && field("scope").split(' ').any(|scope| scope == "openid");
    if !is_sound {
        return (StatusCode::BAD_REQUEST, format!("{asked:?}")).into_response();
    }
    let back = field("redirect_uri");
    let Some(login) = asked.get("login") else {
        let hidden = asked.iter().map(|(name, value)| {
            let value = value.replace('&', "&amp;").replace('"', "&quot;");
            format!("<input type=hidden name=\"{name}\" value=\"{value}\">")
        });
        let hidden: String = hidden.collect();
        return Html(format!(
            "<!doctype html><title>Corp login</title><h1>Corp login</h1><form action=/authorize>{hidden}\
             <input name=login><button type=submit>Enter</button></form>"
        ))
        .into_response();
    };
    if login == "nobody" {
        return Redirect::to(&format!("{back}?error=access_denied&state={}", field("state"))).into_response();
    }
    let code = provider.with(|inner| {
        let mut claims = inner.people[login].clone();
        claims["aud"] = CLIENT.into();
        claims["nonce"] = field("nonce").into();
        let code = format!("code-{}", inner.codes.len());
        let granted = Granted { challenge: field("code_challenge"), redirect_uri: back.clone(), claims };
        inner.codes.insert(code.clone(), granted);
        code
    });
    Redirect::to(&format!("{back}?code={code}&state={}", field("state"))).into_response()
}

/// Exchanges a code, once, for the client that began the sign-in.
async fn token(State(provider): State<IdentityProvider>, headers: HeaderMap, body: String) -> Response {
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    let asked: Fields = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
    let field = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let escape = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pair = format!("{}:{}", escape(CLIENT), escape(SECRET));
    let expected = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    if headers.get("authorization").and_then(|value| value.to_str().ok()) != Some(expected.as_str()) {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_client" }))).into_response();
    }
    let granted = provider.with(|inner| {
        let granted = inner.codes.get(&field("code"))?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
        let is_right = granted.challenge == challenge
            && granted.redirect_uri == field("redirect_uri")
            && field("grant_type") == "authorization_code";
        is_right.then(|| {
            let bent = inner.bent.clone();
            inner.sign(&json!({}), granted.claims.clone(), &bent)
        })
    });
    match granted {
        Some(id_token) => {
            provider.with(|inner| inner.codes.remove(&field("code")));
            Json(json!({ "token_type": "Bearer", "access_token": "unused", "id_token": id_token }))
                .into_response()
        }
        None => (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response(),
    }
}
