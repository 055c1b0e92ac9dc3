//! Egress policy: the rules of the installation, plus destinations that the operator opens to
//! single workspaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_engine::model::WorkspaceId;
use hapax_outgoing::{DestinationPattern, InvalidRules, Outgoing, Rules};

/// HTTP senders: one for each workspace with rules of its own, and one for all others. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct EgressPolicy {
    common: Outgoing,
    own: Arc<BTreeMap<WorkspaceId, Outgoing>>,
}

impl EgressPolicy {
    /// Sender of this workspace.
    pub fn of(&self, workspace: &WorkspaceId) -> &Outgoing {
        self.own.get(workspace).unwrap_or(&self.common)
    }

    /// Sender of the installation itself.
    pub(crate) fn common(&self) -> &Outgoing {
        &self.common
    }

    /// Opens these destinations to each of these workspaces, in addition to the common ones.
    pub fn opening(
        self,
        places: BTreeMap<WorkspaceId, Vec<DestinationPattern>>,
    ) -> Result<Self, InvalidRules> {
        let open = |(workspace, places): (WorkspaceId, Vec<DestinationPattern>)| {
            let common = self.common.rules();
            let allow = common.allow.iter().cloned().chain(places).collect();
            Ok((workspace, self.common.under(Rules { allow, ..common.clone() })?))
        };
        let own: BTreeMap<WorkspaceId, Outgoing> = places.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(EgressPolicy { own: Arc::new(own), ..self })
    }
}

impl From<Outgoing> for EgressPolicy {
    fn from(common: Outgoing) -> Self {
        EgressPolicy { common, own: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use hapax_outgoing::Request;

    use super::*;

    /// RELIABILITY, SSRF: the allow-list is a workspace's own.
    #[test]
    fn what_is_open_to_one_workspace_is_not_open_to_another() {
        let workspace = |name: &str| WorkspaceId::new(name).unwrap();
        let place = |text: &str| text.parse::<DestinationPattern>().unwrap();
        let rules = Rules {
            allow: vec![place("10.1.0.1")],
            denied_addresses: vec!["10.8.0.9:7171".parse().unwrap()],
            ..Rules::default()
        };
        let opened = BTreeMap::from([(workspace("acme"), vec![place("10.8.0.0/16")])]);
        let ways = EgressPolicy::from(Outgoing::new(rules).unwrap()).opening(opened).unwrap();
        let may = |name: &str, url: &str| ways.of(&workspace(name)).check(&Request::get(url)).is_ok();
        assert!(may("acme", "http://10.8.0.1/") && !may("globex", "http://10.8.0.1/"));
        assert!(may("acme", "http://10.1.0.1/") && may("globex", "http://10.1.0.1/"), "open to all");
        assert!(!may("acme", "http://10.8.0.9:7171/"), "our own address stays closed");
    }
}
