//! Identity of an authenticated caller.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use hapax_api::{Code, OfferedNames, Problem, Role};
use hapax_engine::model::{
    Actor, HumanText, Name, Origin, RequestScope, Role as Rank, Timestamp, WorkspaceId,
};
use hapax_workers::WorkerCaller;
use http::Method;

use crate::errors::problem_of_invalid;
use crate::trace::TraceId;

/// The workspace of the installation's admins. It cannot be created through the API.
pub const INSTALLATION: &str = "hapax-installation";

/// An authenticated caller. Only authentication creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its workspace, which limits everything it can see.
    pub workspace: WorkspaceId,
    /// The credential.
    pub credential: Name,
    /// Name for people.
    pub name: String,
    /// Role of the caller.
    pub role: Role,
    /// Requester that it acts for.
    pub requester: Option<String>,
    /// Names that its workers may offer. `None` allows all.
    pub may_offer: Option<OfferedNames>,
    /// Routes that it may call, as method and path. All that its role allows if there is none.
    pub routes: Vec<String>,
    /// May it see inputs, outputs and other payloads?
    pub sees_payloads: bool,
    /// The person, if an identity provider vouches for one.
    pub person: Option<KnownPerson>,
    /// The person that its holder named when it gave out an action token. It is in the audit log whatever a request says.
    pub acts_for: Option<String>,
    /// When the token that proves all this ends, if one does.
    pub ends_at: Option<Timestamp>,
}

/// A person whom an identity provider vouches for. Their name may change; these two never do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPerson {
    /// The provider.
    pub issuer: String,
    /// The person at the provider.
    pub subject: String,
}

impl Identity {
    /// Returns true if it belongs to the installation itself.
    pub fn is_installation(&self) -> bool {
        self.workspace.as_str() == INSTALLATION
    }

    /// Returns true if the credential is not bound to routes, or to this one among others.
    pub fn may_call(&self, method: &Method, path: &str) -> bool {
        let is_this = |route: &String| route.split_once(' ') == Some((method.as_str(), path));
        self.routes.is_empty() || self.routes.iter().any(is_this)
    }

    /// The caller of a worker session.
    pub fn worker(&self) -> WorkerCaller<'_> {
        WorkerCaller { workspace: &self.workspace, may_offer: self.may_offer.as_ref() }
    }

    /// Scope of its request keys.
    pub fn request_scope(&self) -> RequestScope {
        RequestScope { workspace: self.workspace.clone(), caller: self.credential.clone() }
    }
}

/// An authenticated caller, with the origin of one request. The audit log names only callers in
/// this form.
#[derive(Debug, Clone)]
pub struct Acting {
    /// The caller.
    pub identity: Arc<Identity>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
    /// The trace of the request.
    pub trace_id: Option<TraceId>,
}

impl Deref for Acting {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl Acting {
    /// A caller in this process, without a request.
    pub fn locally(identity: Identity) -> Self {
        Acting { identity: Arc::new(identity), address: None, trace_id: None }
    }

    /// The person that a request names in `by`. Nobody speaks for others once an identity provider vouches for who they are.
    pub fn speaks_for<'a>(&self, by: Option<&'a str>) -> Result<Option<Person<'a>>, Problem> {
        match (&self.person, by) {
            (Some(_), Some(_)) => {
                let detail = "You are signed in as a person, and decide under your own name. Omit `by`.";
                Err(Problem::new(Code::InvalidRequest, detail).with("path", "/by"))
            }
            _ => Person::named(by),
        }
    }

    /// Name for the audit log: the person it speaks for, or the credential.
    pub fn actor(&self, speaks_for: Option<Person<'_>>) -> Actor {
        let role = match self.role {
            Role::Manager | Role::Admin => Rank::Manager,
            Role::Viewer | Role::Worker | Role::Operator => Rank::Operator,
        };
        let speaks_for = self.acts_for.as_deref().map(Person).or(speaks_for);
        let name = match speaks_for {
            Some(Person(person)) => format!("{person} ({})", self.name),
            None => self.name.clone(),
        };
        let origin = Origin {
            credential: self.credential.to_string(),
            role: self.role.as_str().to_owned(),
            person: match &self.person {
                Some(_) => Some(self.name.clone()),
                None => speaks_for.map(|Person(person)| person.to_owned()),
            },
            issuer: self.person.as_ref().map(|person| person.issuer.clone()),
            subject: self.person.as_ref().map(|person| person.subject.clone()),
            address: self.address.map(|address| address.to_string()),
            trace_id: self.trace_id.map(|trace_id| trace_id.to_string()),
        };
        Actor { origin: Some(origin), ..Actor::new(name, role) }
    }
}

/// Actor for a settlement by token. The caller's name is unknown; the token's digest and the
/// address identify it.
pub(crate) fn holder_of_token(digest: &[u8], address: Option<IpAddr>, trace_id: Option<TraceId>) -> Actor {
    let start: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let origin = Origin {
        credential: format!("settle_{start}"),
        role: "none".into(),
        person: None,
        issuer: None,
        subject: None,
        address: address.map(|address| address.to_string()),
        trace_id: trace_id.map(|trace_id| trace_id.to_string()),
    };
    Actor { origin: Some(origin), ..Actor::new("holder of a settle token", Rank::Operator) }
}

/// The person that a request speaks for, where a credential is shared by several.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a>(&'a str);

impl<'a> Person<'a> {
    /// The person in `by`, if there is one.
    pub fn named(by: Option<&'a str>) -> Result<Option<Self>, Problem> {
        let Some(name) = by else { return Ok(None) };
        HumanText::Person.check(name).map_err(|invalid| problem_of_invalid(&invalid))?;
        Ok(Some(Person(name)))
    }
}
