//! Recovery of admin access from the store, when all admin keys of the installation are lost.

use hapax_api::{Problem, Role};
use hapax_engine::model::{Actor, HumanText, Name, WorkspaceId};

use super::{Directory, NewCredential};
use crate::credentials::key::ApiKey;
use crate::errors::problem_of_invalid;
use crate::identity::INSTALLATION;
use crate::limits::MAX_CREDENTIALS_PER_WORKSPACE;

/// A new admin of the installation.
#[derive(Debug)]
pub struct Recovered {
    /// Its credential.
    pub credential: Name,
    /// Its key, this once.
    pub key: ApiKey,
    /// Other admin credentials that were revoked.
    pub revoked: Vec<Name>,
}

impl Directory {
    /// Creates an admin credential of the installation, and revokes all others if `revoke_others`
    /// is set. The audit log of the installation records who did it and why. Access to the store is
    /// the only authorization.
    pub async fn recover_installation(
        &self,
        by: Actor,
        reason: &str,
        revoke_others: bool,
    ) -> Result<Recovered, Problem> {
        HumanText::Reason.check(reason).map_err(|invalid| problem_of_invalid(&invalid))?;
        let workspace = WorkspaceId::new(INSTALLATION).expect("a valid literal");
        self.ensure_workspace(&workspace, None, by.clone()).await?;
        let new = NewCredential::new("recovered admin", Role::Admin);
        let what = format!("recovered: {reason}");
        let (credential, key) = self.insert_credential(&workspace, new, by.clone(), &what).await?;
        let mut revoked = Vec::new();
        if revoke_others {
            let now = self.store.now();
            for other in self.list_credentials(&workspace, None, MAX_CREDENTIALS_PER_WORKSPACE).await? {
                if other.id != credential.id && other.role() == Role::Admin && other.is_alive(now) {
                    self.revoke_credential(&workspace, other.id.as_str(), Some(reason), by.clone()).await?;
                    revoked.push(other.id);
                }
            }
        }
        Ok(Recovered { credential: credential.id, key, revoked })
    }
}
