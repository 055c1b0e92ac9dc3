//! Who is asking, once that is known.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use hapax_api::{Problem, Role};
use hapax_engine::model::{Actor, HumanText, Name, Origin, RequestScope, Role as Rank, WorkspaceId};

use crate::errors::of_invalid;
use crate::trace::TraceId;

/// The workspace whose admins set up the installation. Nobody can make one of this name.
pub const INSTALLATION: &str = "hapax-installation";

/// An authenticated caller. Only authentication makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The workspace: nothing outside it can be seen.
    pub workspace: WorkspaceId,
    /// The credential.
    pub credential: Name,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// On whose behalf it asks.
    pub requester: Option<String>,
}

impl Identity {
    /// Does it belong to the installation itself?
    pub fn is_installation(&self) -> bool {
        self.workspace.as_str() == INSTALLATION
    }

    /// Where its request keys are unique.
    pub fn request_scope(&self) -> RequestScope {
        RequestScope { workspace: self.workspace.clone(), caller: self.credential.clone() }
    }
}

/// An authenticated caller with where one request of theirs comes from. Only who acts through it can be named in the audit log.
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

    /// As the audit log names it: the person it says it speaks for, or the credential.
    pub fn actor(&self, speaks_for: Option<Person<'_>>) -> Actor {
        let role = match self.role {
            Role::Manager | Role::Admin => Rank::Manager,
            Role::Viewer | Role::Worker | Role::Operator => Rank::Operator,
        };
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

/// Whoever settles a promise by a link: nobody knows their name, only the token and where they are.
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

/// A person that a request says it speaks for, where a credential is shared by several.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a>(&'a str);

impl<'a> Person<'a> {
    /// The one that `by` names, if it names one.
    pub fn named(by: Option<&'a str>) -> Result<Option<Self>, Problem> {
        let Some(name) = by else { return Ok(None) };
        HumanText::Person.check(name).map_err(|invalid| of_invalid(&invalid))?;
        Ok(Some(Person(name)))
    }
}
