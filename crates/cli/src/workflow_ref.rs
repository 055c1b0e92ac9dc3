//! Names of workflows on the command line: `order` (its latest version), `order@2`, or the id of a definition.

use anyhow::Result;
use hapax_api::client::Client;

use crate::exit_codes::NotFound;
use crate::listing::each_page;

/// Prefix of definition ids.
pub(crate) const DEFINITION_PREFIX: &str = "def_";

/// Id of the definition that `reference` names.
pub(crate) async fn get_definition_id(client: &Client, reference: &str) -> Result<String> {
    if reference.starts_with(DEFINITION_PREFIX) {
        return Ok(reference.to_owned());
    }
    let (name, version) = match reference.rsplit_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (reference, None),
    };
    let mut latest: Option<(u32, String)> = None;
    let take = |page: Vec<hapax_api::DefinitionSummary>| {
        for found in page {
            let is_asked_for = version.is_none_or(|version| version == found.version.to_string());
            if found.name == name
                && is_asked_for
                && latest.as_ref().is_none_or(|(version, _)| *version < found.version)
            {
                latest = Some((found.version, found.id));
            }
        }
        Ok(())
    };
    each_page(async |paging| client.list_definitions(&paging).await, take).await?;
    match latest {
        Some((_, id)) => Ok(id),
        None => Err(NotFound(format!(
            "there is no workflow {reference}; `hapax workflows list` shows all workflows, `hapax apply FILE` uploads one"
        ))
        .into()),
    }
}
