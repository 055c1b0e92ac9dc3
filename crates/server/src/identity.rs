//! Identity of an authenticated caller.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use hapax_api::{OfferedNames, Problem, Role};
use hapax_engine::model::{Actor, HumanText, Name, Origin, RequestScope, Role as Rank, WorkspaceId};
use hapax_workers::WorkerCaller;

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
    /// The person that it acts for, who is named in the audit log whatever a request says.
    pub person: Option<String>,
}

impl Identity {
    /// Returns true if it belongs to the installation itself.
    pub fn is_installation(&self) -> bool {
        self.workspace.as_str() == INSTALLATION
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

    /// Name for the audit log: the person it speaks for, or the credential.
    pub fn actor(&self, speaks_for: Option<Person<'_>>) -> Actor {
        let role = match self.role {
            Role::Manager | Role::Admin => Rank::Manager,
            Role::Viewer | Role::Worker | Role::Operator => Rank::Operator,
        };
        let speaks_for = self.person.as_deref().map(Person).or(speaks_for);
        let name = match speaks_for {
            Some(Person(person)) => format!("{person} ({})", self.name),
            None => self.name.clone(),
        };
        let origin = Origin {
            credential: self.credential.to_string(),
            role: self.role.as_str().to_owned(),
            person: speaks_for.map(|Person(person)| person.to_owned()),
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
