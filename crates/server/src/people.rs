//! People: OpenID Connect for the console, and tokens of the same providers for the API.
//!
//! Sign-in is the authorization code flow with PKCE, a state and a nonce. What the server must remember of a sign-in travels in
//! a sealed cookie of the browser that began it, so any node can finish it.

pub(crate) mod claims;
pub(crate) mod jwt;
mod provider;
pub mod settings;
mod sign_in;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use hapax_api::{Code, Problem};
use hapax_engine::model::{Timestamp, WorkspaceId};
use hapax_outgoing::Outgoing;

use crate::directory::Directory;
use crate::identity::Identity;
use crate::sealing::Sealer;
use claims::Attested;
use jwt::{Expected, Token};
use provider::{Provider, Rejected};
use settings::PeopleOptions;

pub(crate) use jwt::looks_like_token;
pub(crate) use sign_in::{Begun, Returned};

/// Refusal of a sign-in: the text for the person, and the text for the audit log.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) problem: Problem,
    pub(crate) why: String,
}

impl Refusal {
    fn new(problem: Problem, why: impl Into<String>) -> Self {
        Refusal { problem, why: why.into() }
    }
}

/// The identity providers of a server.
#[derive(Debug)]
pub(crate) struct People {
    public_url: String,
    providers: Vec<Provider>,
    directory: Directory,
    sealer: Arc<Sealer>,
    /// Workspaces that are known to exist. Workspaces are never deleted, and only rules name them.
    workspaces: Mutex<HashSet<WorkspaceId>>,
    used: sign_in::UsedStates,
}

impl People {
    /// `options` were checked.
    pub(crate) fn new(
        options: PeopleOptions,
        outgoing: &Outgoing,
        directory: Directory,
        sealer: Arc<Sealer>,
    ) -> Result<Self, hapax_outgoing::InvalidRules> {
        let providers = options.providers.into_iter().map(|options| Provider::new(options, outgoing));
        Ok(People {
            public_url: options.public_url,
            providers: providers.collect::<Result<_, _>>()?,
            directory,
            sealer,
            workspaces: Mutex::default(),
            used: sign_in::UsedStates::default(),
        })
    }

    fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.options.name == name)
    }

    /// Name and label of each provider.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let named = |it: &Provider| (it.options.name.clone(), it.options.shown_name().to_owned());
        self.providers.iter().map(named).collect()
    }

    /// The caller behind an access token.
    pub(crate) async fn identify(&self, text: &str, now: Timestamp) -> Result<Identity, Refusal> {
        let token = Token::parse(text).map_err(bad_token)?;
        let claimed = token.claimed_audiences();
        let takes = |it: &&Provider| {
            token.claimed_issuer() == Some(it.options.issuer.as_str())
                && it.options.audiences.iter().any(|audience| claimed.contains(&audience.as_str()))
        };
        let Some(provider) = self.providers.iter().find(takes) else {
            let is_known =
                self.providers.iter().any(|it| token.claimed_issuer() == Some(it.options.issuer.as_str()));
            return Err(bad_token(if is_known { jwt::BadToken::Audience } else { jwt::BadToken::Issuer }));
        };
        let options = &provider.options;
        let expected = Expected { issuer: &options.issuer, audiences: &options.audiences, sign_in: None };
        let claims = provider.verify(text, &expected, now).await.map_err(rejected)?;
        let ends_at = claims.get("exp").and_then(serde_json::Value::as_f64).unwrap_or_default();
        let ends_at = Timestamp::from_millis((ends_at * 1_000.0) as i64);
        let identity = self.admit(&Attested::of(options, &claims)).await?;
        Ok(Identity { ends_at: Some(ends_at), ..identity })
    }

    /// The person as the rules have it now; `None` if no rule gives them a role any more.
    pub(crate) fn identity_of(&self, attested: &Attested) -> Option<Identity> {
        let provider = self.provider(&attested.provider)?;
        (provider.options.issuer == attested.issuer).then(|| attested.identity(&provider.options))?
    }

    async fn admit(&self, attested: &Attested) -> Result<Identity, Refusal> {
        let who = format!("{} ({} at {})", attested.name, attested.subject, attested.provider);
        let Some(identity) = self.identity_of(attested) else {
            let detail = "You are known, and nobody gave you a role here. Ask an admin to add one of your groups to the rules.";
            return Err(Refusal::new(Problem::new(Code::NoRole, detail), format!("{who} has no role")));
        };
        if self.workspaces.lock().expect("no holder panics").contains(&identity.workspace) {
            return Ok(identity);
        }
        let found = self.directory.find_workspace(identity.workspace.as_str()).await;
        match found.map_err(|problem| Refusal::new(problem, "the store could not be read"))? {
            Some(_) => {
                self.workspaces.lock().expect("no holder panics").insert(identity.workspace.clone());
                Ok(identity)
            }
            None => {
                let detail = format!(
                    "The rule that gives you a role names the workspace {}, and there is none.",
                    identity.workspace
                );
                Err(Refusal::new(
                    Problem::new(Code::NoRole, detail),
                    format!("{who}: there is no workspace {}", identity.workspace),
                ))
            }
        }
    }
}

fn bad_token(bad: jwt::BadToken) -> Refusal {
    let detail = "The token does not count here. Its issuer, audience, signature or lifetime is wrong; ask its issuer for a new one.";
    Refusal::new(Problem::new(Code::Unauthorized, detail), format!("a token: {bad}"))
}

fn rejected(why: Rejected) -> Refusal {
    match why {
        Rejected::Token(bad) => bad_token(bad),
        Rejected::Provider(fault) => unreachable_provider(&fault),
    }
}

fn unreachable_provider(fault: &provider::ProviderFault) -> Refusal {
    tracing::warn!(%fault, "the identity provider does not answer as it should");
    let detail =
        "The identity provider did not answer as it should. Try again; the operator's log has the cause.";
    Refusal::new(
        Problem::new(Code::IdentityProviderUnavailable, detail).retry_after(5),
        format!("the identity provider failed: {fault}"),
    )
}
