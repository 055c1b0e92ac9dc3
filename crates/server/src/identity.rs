//! Who is asking, once that is known.

use hapax_api::{Problem, Role};
use hapax_engine::model::{Actor, Name, RequestScope, Role as Rank, Words, WorkspaceId};

use crate::errors::of_invalid;

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
        Actor::new(name, role)
    }

    /// Where its request keys are unique.
    pub fn request_scope(&self) -> RequestScope {
        RequestScope { workspace: self.workspace.clone(), caller: self.credential.clone() }
    }
}

/// A person that a request says it speaks for, where a credential is shared by several.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a>(&'a str);

impl<'a> Person<'a> {
    /// The one that `by` names, if it names one.
    pub fn named(by: Option<&'a str>) -> Result<Option<Self>, Problem> {
        let Some(name) = by else { return Ok(None) };
        Words::Person.check(name).map_err(|invalid| of_invalid(&invalid))?;
        Ok(Some(Person(name)))
    }
}
