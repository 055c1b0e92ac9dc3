//! From claims to a person with a workspace and a role.

use hapax_engine::model::{HumanText, Name, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::settings::ProviderOptions;
use crate::base62;
use crate::identity::{Identity, KnownPerson};
use crate::limits::{MAX_CLAIM_VALUE_CHARS, MAX_CLAIM_VALUES};

/// What a provider says about a person, as far as it matters here. Sessions keep it, so that a change of the rules counts for
/// people who are signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attested {
    /// Name of the provider in the settings.
    pub(super) provider: String,
    pub(super) issuer: String,
    pub(super) subject: String,
    /// Name for people.
    pub(super) name: String,
    /// Values of the claim that the rules look at.
    pub(super) values: Vec<String>,
}

impl Attested {
    pub(super) fn of(options: &ProviderOptions, claims: &Map<String, Value>) -> Self {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::trim);
        let subject = text("sub").unwrap_or_default().to_owned();
        let is_usable = |name: &&str| HumanText::Person.check(name).is_ok();
        // An unconfirmed address may belong to another person.
        let is_unconfirmed =
            options.name_claim == "email" && claims.get("email_verified") == Some(&Value::Bool(false));
        let named = text(&options.name_claim).filter(|_| !is_unconfirmed).filter(is_usable);
        let name = named.or(Some(subject.as_str()).filter(is_usable)).unwrap_or("somebody").to_owned();
        let mut values: Vec<String> = match find(claims, &options.role_claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            _ => Vec::new(),
        };
        // Only those matter that a rule names, and a session stays small.
        values.retain(|value| {
            options.rules.iter().any(|rule| rule.value == *value)
                && value.chars().count() <= MAX_CLAIM_VALUE_CHARS
        });
        values.truncate(MAX_CLAIM_VALUES);
        Attested { provider: options.name.clone(), issuer: options.issuer.clone(), subject, name, values }
    }

    /// The person, with the role that the first fitting rule gives; `None` if no rule does.
    pub(super) fn identity(&self, options: &ProviderOptions) -> Option<Identity> {
        let rule = options.rule_for(&self.values)?;
        let workspace = WorkspaceId::new(&rule.workspace).ok()?;
        Some(Identity {
            credential: credential_of(&workspace, &self.issuer, &self.subject),
            workspace,
            name: self.name.clone(),
            role: rule.role,
            requester: rule.requester.clone(),
            sees_payloads: rule.payloads,
            may_offer: None,
            acts_for: None,
            person: Some(KnownPerson { issuer: self.issuer.clone(), subject: self.subject.clone() }),
            ends_at: None,
        })
    }
}

/// Stands for a person where others have a credential: in scopes of request keys, rate limits and the audit log.
fn credential_of(workspace: &WorkspaceId, issuer: &str, subject: &str) -> Name {
    let mut hash = Sha256::new().chain_update("hapax person");
    for part in [workspace.as_str(), issuer, subject] {
        hash = hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part);
    }
    let text = base62::encode(&hash.finalize()[..16], 22);
    Name::new("person", &format!("person_{text}")).expect("a short plain word")
}

/// The claim at a path whose parts are separated by dots; a claim whose whole name fits goes first.
fn find<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(whole) = claims.get(path) {
        return Some(whole);
    }
    let (first, rest) = path.split_once('.')?;
    find(claims.get(first)?.as_object()?, rest)
}

#[cfg(test)]
mod tests {
    use hapax_api::Role;
    use serde_json::json;

    use super::super::settings::RoleRule;
    use super::*;

    fn options(role_claim: &str) -> ProviderOptions {
        let rule = RoleRule {
            value: "support".into(),
            workspace: "acme".into(),
            role: Role::Operator,
            requester: Some("admin".into()),
            payloads: false,
        };
        ProviderOptions {
            name: "corp".into(),
            label: None,
            issuer: "https://issuer".into(),
            client_id: "hapax".into(),
            client_secret_file: None,
            client_secret: None,
            scopes: Vec::new(),
            audiences: Vec::new(),
            name_claim: "email".into(),
            role_claim: role_claim.into(),
            rules: vec![rule],
        }
    }

    fn attested(claim: &str, claims: Value) -> Attested {
        Attested::of(&options(claim), claims.as_object().unwrap())
    }

    #[test]
    fn a_rule_gives_a_person_everything_that_a_credential_has() {
        let ada = attested(
            "groups",
            json!({ "sub": "u1", "email": "ada@acme.example", "groups": ["all", "support"] }),
        );
        let identity = ada.identity(&options("groups")).unwrap();
        assert_eq!(
            (identity.workspace.as_str(), identity.role, identity.name.as_str()),
            ("acme", Role::Operator, "ada@acme.example")
        );
        assert_eq!((identity.requester.as_deref(), identity.sees_payloads), (Some("admin"), false));
        assert!(identity.credential.as_str().starts_with("person_"));
        assert_eq!(ada.values, ["support"], "what no rule names is not kept");
        let nobody = attested("groups", json!({ "sub": "u1", "groups": ["all"] }));
        assert_eq!(nobody.identity(&options("groups")), None);
    }

    #[test]
    fn the_claim_is_a_text_or_a_list_and_may_lie_inside_an_object() {
        for (path, claims) in [
            ("role", json!({ "sub": "u", "role": "support" })),
            ("realm_access.roles", json!({ "sub": "u", "realm_access": { "roles": ["x", "support"] } })),
            ("https://acme.example/roles", json!({ "sub": "u", "https://acme.example/roles": ["support"] })),
        ] {
            assert_eq!(attested(path, claims.clone()).values, ["support"], "{claims}");
        }
        for claims in [
            json!({ "sub": "u" }),
            json!({ "sub": "u", "role": 5 }),
            json!({ "sub": "u", "role": { "support": true } }),
        ] {
            assert!(attested("role", claims.clone()).values.is_empty(), "{claims}");
        }
    }

    #[test]
    fn a_person_is_the_same_by_subject_and_not_by_name() {
        let person = |claims: Value| attested("groups", claims).identity(&options("groups")).unwrap();
        let one = person(json!({ "sub": "u1", "email": "a@x.example", "groups": "support" }));
        let renamed = person(json!({ "sub": "u1", "email": "b@x.example", "groups": "support" }));
        let other = person(json!({ "sub": "u2", "email": "a@x.example", "groups": "support" }));
        assert_eq!(one.credential, renamed.credential);
        assert_ne!(one.credential, other.credential);
    }

    #[test]
    fn a_name_that_nobody_confirmed_is_not_shown() {
        let named = |claims: Value| attested("groups", claims).name;
        assert_eq!(named(json!({ "sub": "u1", "email": "boss@x.example", "email_verified": false })), "u1");
        assert_eq!(
            named(json!({ "sub": "u1", "email": "boss@x.example", "email_verified": true })),
            "boss@x.example"
        );
        assert_eq!(named(json!({ "sub": "u1", "email": "x".repeat(5_000) })), "u1");
    }
}
