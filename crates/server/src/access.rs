//! Access rules: every route names one, and a route without one does not compile.

use hapax_api::Role;

/// Permission that a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// None: the response says nothing about any workspace.
    Open,
    /// To read data of the workspace.
    Read,
    /// To start and steer runs, and to make reversible decisions.
    Operate,
    /// To release keys, and to make irreversible decisions.
    Manage,
    /// To see fields that documents mark as sensitive, on request and with a reason.
    Reveal,
    /// To set up the workspace: definitions, credentials.
    Administer,
    /// To carry out runs, tasks and actions as a worker.
    Work,
    /// To read figures about all workspaces: for credentials of the installation with any role but
    /// worker.
    Watch,
    /// To set up the installation: workspaces.
    Install,
}

impl Access {
    /// Every kind.
    pub const ALL: [Access; 9] = [
        Access::Open,
        Access::Read,
        Access::Operate,
        Access::Manage,
        Access::Reveal,
        Access::Administer,
        Access::Work,
        Access::Watch,
        Access::Install,
    ];

    /// Returns true if a credential of this role has the permission. `is_installation` says that it
    /// belongs to the workspace of the installation itself.
    pub fn allows(self, role: Role, is_installation: bool) -> bool {
        match self {
            Access::Open => true,
            Access::Read => matches!(role, Role::Viewer | Role::Operator | Role::Manager | Role::Admin),
            Access::Operate => matches!(role, Role::Operator | Role::Manager | Role::Admin),
            Access::Manage | Access::Reveal => matches!(role, Role::Manager | Role::Admin),
            Access::Administer => role == Role::Admin,
            Access::Work => matches!(role, Role::Worker | Role::Admin),
            Access::Watch => Access::Read.allows(role, is_installation) && is_installation,
            Access::Install => role == Role::Admin && is_installation,
        }
    }

    /// The lowest role with the permission, for the error response.
    pub const fn least_role(self) -> &'static str {
        match self {
            Access::Open | Access::Read => "viewer",
            Access::Operate => "operator",
            Access::Manage | Access::Reveal => "manager",
            Access::Administer => "admin",
            Access::Work => "worker",
            Access::Watch => "viewer of the installation",
            Access::Install => "admin of the installation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_it_is_for_and_no_more() {
        let may = |role| Access::ALL.into_iter().filter(|access| access.allows(role, false)).count();
        assert_eq!(Role::ALL.map(may), [2, 2, 3, 5, 7], "viewer, worker, operator, manager, admin");
        assert!(Access::Watch.allows(Role::Viewer, true));
        assert!(!Access::Watch.allows(Role::Worker, true));
        assert!(
            !Access::Watch.allows(Role::Admin, false),
            "figures about all workspaces are for none of them"
        );
        assert!(Access::Install.allows(Role::Admin, true));
        assert!(!Access::Install.allows(Role::Manager, true));
    }
}
