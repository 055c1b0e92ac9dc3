//! Settings of identity providers, and the rules that give people a workspace and a role.

use std::fmt;
use std::path::PathBuf;

use hapax_api::Role;
use hapax_engine::model::{Name, WorkspaceId};
use secrecy::SecretString;
use serde::Deserialize;

use crate::limits::{MAX_IDENTITY_PROVIDERS, MAX_PEOPLE_RULES};

/// How people sign in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PeopleOptions {
    /// Address of the server as browsers reach it, without a path. Providers send people back to it.
    pub public_url: String,
    /// The providers, in the order of the sign-in page.
    #[serde(rename = "provider")]
    pub providers: Vec<ProviderOptions>,
}

/// One OpenID Connect provider, for one client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProviderOptions {
    /// Short name, part of addresses.
    pub name: String,
    /// Text of the button; the name if absent.
    #[serde(default)]
    pub label: Option<String>,
    /// Address of the issuer, exactly as its tokens name it.
    pub issuer: String,
    /// Id of the server at the provider.
    pub client_id: String,
    /// File with the client's secret; a client without a secret relies on PKCE alone.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The secret that the file holds.
    #[serde(skip)]
    pub client_secret: Option<SecretString>,
    /// Requested scopes.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// Audiences of access tokens that the API accepts. Without any, this provider's tokens count only for the console.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Claim with the name for the audit log.
    #[serde(default = "default_name_claim")]
    pub name_claim: String,
    /// Claim that the rules look at: a text or a list of texts. A dot leads into an object.
    #[serde(default = "default_role_claim")]
    pub role_claim: String,
    /// Rules from claims to roles; the first rule that fits decides.
    #[serde(default, rename = "rule")]
    pub rules: Vec<RoleRule>,
}

/// Gives a role in a workspace to everybody whose claim has a value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RoleRule {
    /// Value of the claim.
    pub value: String,
    /// The workspace.
    pub workspace: String,
    /// The role.
    pub role: Role,
    /// Requester that these people act for, in approvals and entity workflows.
    #[serde(default)]
    pub requester: Option<String>,
    /// May they see inputs, outputs and other payloads?
    #[serde(default = "yes")]
    pub payloads: bool,
}

fn default_scopes() -> Vec<String> {
    ["openid", "profile", "email"].map(Into::into).into()
}

fn default_name_claim() -> String {
    "email".into()
}

fn default_role_claim() -> String {
    "groups".into()
}

const fn yes() -> bool {
    true
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusablePeople(String);

fn unusable(text: impl fmt::Display) -> UnusablePeople {
    UnusablePeople(text.to_string())
}

impl PeopleOptions {
    /// Checks all settings.
    pub fn check(&self) -> Result<(), UnusablePeople> {
        if self.providers.is_empty() {
            return Err(unusable("name at least one [[provider]]"));
        }
        if self.providers.len() > MAX_IDENTITY_PROVIDERS {
            return Err(unusable(format_args!("at most {MAX_IDENTITY_PROVIDERS} providers")));
        }
        let origin = origin_of(&self.public_url);
        if origin != Some(self.public_url.as_str()) || !is_private_enough(&self.public_url) {
            return Err(unusable(format_args!(
                "public-url: {:?} is not an address such as https://hapax.example.com, without a path; http:// only for this machine",
                self.public_url
            )));
        }
        for (place, provider) in self.providers.iter().enumerate() {
            let about =
                |error: UnusablePeople| unusable(format_args!("provider {:?}: {error}", provider.name));
            provider.check().map_err(about)?;
            let earlier = &self.providers[..place];
            if earlier.iter().any(|other| other.name == provider.name) {
                return Err(unusable(format_args!("two providers have the name {:?}", provider.name)));
            }
            let shares = |other: &&ProviderOptions| {
                other.issuer == provider.issuer
                    && other.audiences.iter().any(|audience| provider.audiences.contains(audience))
            };
            if let Some(other) = earlier.iter().find(shares) {
                return Err(unusable(format_args!(
                    "the providers {:?} and {:?} share an issuer and an audience, so a token fits both",
                    other.name, provider.name
                )));
            }
        }
        Ok(())
    }
}

impl ProviderOptions {
    fn check(&self) -> Result<(), UnusablePeople> {
        let is_short = !self.name.is_empty() && self.name.len() <= 40;
        if !is_short || !self.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            return Err(unusable("name: use 1 to 40 lower-case letters, digits and hyphens"));
        }
        if !is_private_enough(&self.issuer) || self.issuer.contains(['?', '#']) {
            return Err(unusable(
                "issuer: use an https:// address without a query; http:// only for this machine",
            ));
        }
        if self.client_id.is_empty() {
            return Err(unusable("client-id is empty"));
        }
        if !self.scopes.iter().any(|scope| scope == "openid") {
            return Err(unusable("scopes: `openid` is missing"));
        }
        if self.audiences.iter().any(String::is_empty) {
            return Err(unusable("audiences: an audience is empty"));
        }
        if self.rules.is_empty() {
            return Err(unusable("without a [[provider.rule]] nobody has a role"));
        }
        if self.rules.len() > MAX_PEOPLE_RULES {
            return Err(unusable(format_args!("at most {MAX_PEOPLE_RULES} rules")));
        }
        for rule in &self.rules {
            WorkspaceId::new(&rule.workspace)
                .map_err(|invalid| unusable(format_args!("workspace {:?}: {invalid}", rule.workspace)))?;
            Name::new("workspace", &rule.workspace).map_err(unusable)?;
            if rule.value.is_empty() {
                return Err(unusable("a rule has an empty value"));
            }
            if rule
                .requester
                .as_ref()
                .is_some_and(|name| name.trim().is_empty() || name.chars().count() > 128)
            {
                return Err(unusable("a rule has a requester that is empty or longer than 128 characters"));
            }
        }
        Ok(())
    }

    /// Text of its button.
    pub fn shown_name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    /// Finds the rule for these values of the claim.
    pub(crate) fn rule_for(&self, values: &[String]) -> Option<&RoleRule> {
        self.rules.iter().find(|rule| values.contains(&rule.value))
    }
}

/// Scheme and authority of an address.
fn origin_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let is_plain =
        !authority.is_empty() && authority.bytes().all(|b| b.is_ascii_graphic() && b != b'@' && b != b'\\');
    is_plain.then(|| &url[..scheme.len() + 3 + authority.len()])
}

/// Is the address encrypted, or on this machine?
pub(super) fn is_private_enough(url: &str) -> bool {
    let Some(origin) = origin_of(url) else { return false };
    if origin.starts_with("https://") {
        return true;
    }
    let Some(authority) = origin.strip_prefix("http://") else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host and port of an address, as the rules for outgoing requests name places.
pub(super) fn place_of(url: &str) -> Option<String> {
    let origin = origin_of(url)?;
    let (scheme, authority) = origin.split_once("://")?;
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    Some(match (has_port, scheme) {
        (true, _) => authority.to_owned(),
        (false, "http") => format!("{authority}:80"),
        (false, _) => format!("{authority}:443"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> ProviderOptions {
        ProviderOptions {
            name: "corp".into(),
            label: None,
            issuer: "https://login.example.com/realms/corp".into(),
            client_id: "hapax".into(),
            client_secret_file: None,
            client_secret: None,
            scopes: default_scopes(),
            audiences: vec!["hapax-api".into()],
            name_claim: default_name_claim(),
            role_claim: default_role_claim(),
            rules: vec![rule("support", Role::Operator), rule("leads", Role::Manager)],
        }
    }

    fn rule(value: &str, role: Role) -> RoleRule {
        RoleRule { value: value.into(), workspace: "acme".into(), role, requester: None, payloads: true }
    }

    fn options(providers: Vec<ProviderOptions>) -> PeopleOptions {
        PeopleOptions { public_url: "https://hapax.example.com".into(), providers }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let role = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|&value| value.into()).collect();
            provider().rule_for(&values).map(|rule| rule.role)
        };
        assert_eq!(role(&["leads", "support"]), Some(Role::Operator));
        assert_eq!(role(&["leads"]), Some(Role::Manager));
        assert_eq!(role(&["Leads", "lead", ""]), None);
        assert_eq!(role(&[]), None);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        assert_eq!(options(vec![provider()]).check(), Ok(()));
        let bad = |change: fn(&mut ProviderOptions)| {
            let mut provider = provider();
            change(&mut provider);
            options(vec![provider]).check().unwrap_err().to_string()
        };
        assert!(bad(|it| it.issuer = "http://login.example.com".into()).contains("issuer"));
        assert!(bad(|it| it.issuer = "https://login.example.com?x=1".into()).contains("issuer"));
        assert!(bad(|it| it.rules.clear()).contains("nobody has a role"));
        assert!(bad(|it| it.scopes = vec!["email".into()]).contains("openid"));
        assert!(bad(|it| it.rules[0].workspace = "no such/name".into()).contains("workspace"));
        assert!(bad(|it| it.name = "Corp Login".into()).contains("name"));
        let twice = options(vec![provider(), ProviderOptions { name: "other".into(), ..provider() }]);
        assert!(twice.check().unwrap_err().to_string().contains("share an issuer and an audience"));
        for public in
            ["hapax.example.com", "https://hapax.example.com/", "http://hapax.example.com", "https://a@b", ""]
        {
            let options = PeopleOptions { public_url: public.into(), providers: vec![provider()] };
            assert!(options.check().is_err(), "{public}");
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        for fine in ["https://x.example", "http://localhost:1", "http://127.0.0.1:8080/a", "http://[::1]:80"]
        {
            assert!(is_private_enough(fine), "{fine}");
        }
        for open in [
            "http://x.example",
            "http://localhost.example",
            "ftp://localhost",
            "http://10.0.0.1",
            "localhost",
            "http://u@localhost",
        ] {
            assert!(!is_private_enough(open), "{open}");
        }
        assert_eq!(place_of("https://login.example.com/a").as_deref(), Some("login.example.com:443"));
        assert_eq!(place_of("http://127.0.0.1:8080/a").as_deref(), Some("127.0.0.1:8080"));
    }
}
