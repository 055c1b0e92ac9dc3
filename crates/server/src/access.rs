//! Who may do what: every route names one of these, and the compiler refuses a route without.

use hapax_api::Role;

/// What a route asks of whoever calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing: it tells nothing about any workspace.
    Open,
    /// To read what is in the workspace.
    Read,
    /// To start and steer runs, and to decide what can be taken back.
    Operate,
    /// To free keys, and to decide what cannot be taken back.
    Manage,
    /// To set the workspace up: definitions, credentials.
    Administer,
    /// To carry out runs, tasks and actions as a worker.
    Work,
    /// To read figures about all workspaces: for credentials of the installation, whatever their role beside worker.
    Watch,
    /// To set the installation up: workspaces.
    Install,
}

impl Access {
    /// Every kind.
    pub const ALL: [Access; 8] = [
        Access::Open,
        Access::Read,
        Access::Operate,
        Access::Manage,
        Access::Administer,
        Access::Work,
        Access::Watch,
        Access::Install,
    ];

    /// May a credential of this role do it? `is_installation` says that it belongs to the workspace of the installation itself.
    pub fn allows(self, role: Role, is_installation: bool) -> bool {
        match self {
            Access::Open => true,
            Access::Read => matches!(role, Role::Viewer | Role::Operator | Role::Manager | Role::Admin),
            Access::Operate => matches!(role, Role::Operator | Role::Manager | Role::Admin),
            Access::Manage => matches!(role, Role::Manager | Role::Admin),
            Access::Administer => role == Role::Admin,
            Access::Work => matches!(role, Role::Worker | Role::Admin),
            Access::Watch => Access::Read.allows(role, is_installation) && is_installation,
            Access::Install => role == Role::Admin && is_installation,
        }
    }

    /// The least role that may, for the refusal.
    pub const fn least_role(self) -> &'static str {
        match self {
            Access::Open | Access::Read => "viewer",
            Access::Operate => "operator",
            Access::Manage => "manager",
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
        assert_eq!(Role::ALL.map(may), [2, 2, 3, 4, 6], "viewer, worker, operator, manager, admin");
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
