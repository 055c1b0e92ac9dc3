//! The suite: a validated config, and the run over its clauses.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use url::Url;

use crate::calls::Bench;
use crate::clause::{self, Stop, list_clauses};
use crate::config::{Config, Shape, merge};
use crate::limits::LONGEST_MAX_WAIT_MS;
use crate::report::{Outcome, Report, Verdict};

/// A service to check.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Its base URL, without a trailing slash.
    base_url: String,
    config: Config,
    client: reqwest::Client,
    tls: Arc<rustls::ClientConfig>,
}

/// Reason why a service cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotCheck {
    /// The base URL is invalid.
    #[error("`{url}` cannot be called ({why}); give one like http://127.0.0.1:8080")]
    BaseUrl {
        /// The given value.
        url: String,
        /// The problem.
        why: String,
    },
    /// The config contradicts itself.
    #[error("`{field}`: {why}")]
    Config {
        /// The wrong field.
        field: String,
        /// The problem and its fix.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("no HTTP client can be made: {why}")]
    Client {
        /// The problem.
        why: String,
    },
    /// The service does not answer.
    #[error("`{url}` does not answer ({why}); start the service, or correct the URL")]
    NoService {
        /// Its URL.
        url: String,
        /// Observed behaviour.
        why: String,
    },
}

impl Suite {
    /// Validates a config. Environment proxies are not used, and redirects are not followed.
    pub fn new(base_url: &str, config: Config) -> Result<Suite, CannotCheck> {
        let bad = |why: String| CannotCheck::BaseUrl { url: base_url.to_owned(), why };
        let url = Url::parse(base_url).map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(bad("not http or https".to_owned()));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(bad("a user, a query or a fragment".to_owned()));
        }
        judge(&config)?;
        let failed = |why: String| CannotCheck::Client { why };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .user_agent(concat!("hapax-http-conformance/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(error.to_string()))?;
        Ok(Suite { base_url: base_url.trim_end_matches('/').to_owned(), config, client, tls: Arc::new(tls) })
    }

    /// Checks every clause of the profile, one after another.
    pub async fn run(&self) -> Result<Report, CannotCheck> {
        self.run_telling(|_| ()).await
    }

    /// Like [`Suite::run`], and reports each verdict when it is found.
    pub async fn run_telling(&self, mut tell: impl FnMut(&Verdict)) -> Result<Report, CannotCheck> {
        let root =
            self.client.get(format!("{}/", self.base_url)).timeout(self.bench().max_wait()).send().await;
        if let Err(error) = root {
            let why = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), |cause| cause.to_string());
            return Err(CannotCheck::NoService { url: self.base_url.clone(), why });
        }
        let mut clauses = Vec::new();
        for clause in clause::of(self.config.profile) {
            let outcome = match self.config.not_applicable.get(clause.info.id) {
                Some(why) => Outcome::Skipped { why: why.clone() },
                None => match (clause.look)(&self.bench()).await {
                    Ok(()) => Outcome::Passed,
                    Err(Stop::Failed { expected, saw }) => Outcome::Failed { expected, saw },
                    Err(Stop::Skipped { why }) => Outcome::Skipped { why },
                },
            };
            let info = clause.info;
            let verdict =
                Verdict { id: info.id, title: info.title, says: info.says, source: info.source, outcome };
            tell(&verdict);
            clauses.push(verdict);
        }
        Ok(Report { clauses })
    }

    fn bench(&self) -> Bench {
        Bench {
            config: self.config.clone(),
            base: self.base_url.clone(),
            client: self.client.clone(),
            tls: self.tls.clone(),
            unique: uuid::Uuid::new_v4().simple().to_string(),
        }
    }
}

fn judge(config: &Config) -> Result<(), CannotCheck> {
    let bad =
        |field: &str, why: &str| Err(CannotCheck::Config { field: field.to_owned(), why: why.to_owned() });
    judge_shape("request", &config.request)?;
    let others = [
        ("otherRequest", &config.other_request),
        ("slowRequest", &config.slow_request),
        ("failingRequest", &config.failing_request),
    ];
    for (name, shape) in others {
        if let Some(shape) = shape {
            judge_shape(name, shape)?;
        }
    }
    if let Some(other) = &config.other_request
        && (&other.method, &other.path) == (&config.request.method, &config.request.path)
    {
        return bad("otherRequest", "its method or path must differ from those of `request`");
    }
    if let Some(effects) = &config.effects {
        judge_path("effects.path", &effects.path)?;
        judge_headers("effects.headers", &effects.headers)?;
        if !effects.pointer.is_empty() && !effects.pointer.starts_with('/') {
            return bad("effects.pointer", "a JSON pointer is empty or begins with a slash, as in /items");
        }
    }
    judge_headers("otherCredential", &config.other_credential)?;
    for (field, patch) in [("otherBody", &config.other_body), ("badBody", &config.bad_body)] {
        let Some(patch) = patch else { continue };
        let Some(body) = &config.request.body else {
            return bad(field, "`request` has no body that it could change");
        };
        if merge(body, patch) == *body {
            return bad(field, "it changes nothing in the body of `request`; give a merge patch that does");
        }
    }
    if config.max_wait_ms == 0 || config.max_wait_ms > LONGEST_MAX_WAIT_MS {
        return bad("maxWaitMs", &format!("give 1 to {LONGEST_MAX_WAIT_MS}"));
    }
    let known = list_clauses();
    for id in config.not_applicable.keys() {
        if !known.iter().any(|clause| clause.id == id) {
            let known: Vec<&str> = known.iter().map(|clause| clause.id).collect();
            return bad(
                &format!("notApplicable.{id}"),
                &format!("no such clause; there are {}", known.join(", ")),
            );
        }
    }
    Ok(())
}

fn judge_shape(field: &str, shape: &Shape) -> Result<(), CannotCheck> {
    judge_path(&format!("{field}.path"), &shape.path)?;
    judge_headers(&format!("{field}.headers"), &shape.headers)?;
    match shape.method.parse::<Method>() {
        Ok(Method::POST | Method::PUT | Method::PATCH | Method::DELETE) => Ok(()),
        _ => {
            let why = format!("`{}` changes nothing; keys are for POST, PUT, PATCH and DELETE", shape.method);
            Err(CannotCheck::Config { field: format!("{field}.method"), why })
        }
    }
}

fn judge_path(field: &str, path: &str) -> Result<(), CannotCheck> {
    match path.starts_with('/') && !path.contains(char::is_whitespace) && !path.contains('#') {
        true => Ok(()),
        false => {
            let why = format!("`{path}` is no path; begin with a slash, as in /orders");
            Err(CannotCheck::Config { field: field.to_owned(), why })
        }
    }
}

fn judge_headers(
    field: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<(), CannotCheck> {
    for (name, value) in headers {
        let field = || format!("{field}.{name}");
        let parsed = name.parse::<HeaderName>();
        if parsed.is_err() || value.parse::<HeaderValue>().is_err() {
            return Err(CannotCheck::Config {
                field: field(),
                why: "not a header that can be sent".to_owned(),
            });
        }
        if parsed.is_ok_and(|name| name == "idempotency-key") {
            let why = "the suite sets the key itself; leave it out".to_owned();
            return Err(CannotCheck::Config { field: field(), why });
        }
    }
    Ok(())
}
