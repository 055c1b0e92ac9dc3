//! Keeping leases alive.

use hapax_engine::limits::MAX_RENEWALS;
use hapax_engine::model::RunId;
use hapax_engine::store::RenewLeases;
use rusqlite::params;

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::rows::bytes;
use crate::session::Session;

impl Verb for RenewLeases {
    type Outcome = Vec<RunId>;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<Vec<RunId>, Fault> {
        if self.leases.len() > MAX_RENEWALS {
            return Err(Fault::Refused(format!("more than {MAX_RENEWALS} leases in one renewal")));
        }
        let until = session.now.plus(self.lease_for);
        let owner = self.owner.as_u128().to_be_bytes();
        let mut renew = session.prepare(include_str!("../sql/renew_lease.sql"))?;
        let mut lost = Vec::new();
        for held in &self.leases {
            let changed = match session.find_workspace(&held.workspace)? {
                Some(workspace) => renew.execute(params![
                    workspace.0,
                    bytes(held.run),
                    count(held.fence.get()),
                    owner,
                    millis(until),
                ])?,
                None => 0,
            };
            if changed == 0 {
                lost.push(held.run);
            }
        }
        Ok(lost)
    }
}
