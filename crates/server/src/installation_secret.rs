//! Secrets of the installation: created once, the same on all nodes.

use hapax_engine::model::{CatalogKind, Name, Payload, WorkspaceId};
use hapax_engine::store::{PutCatalogItem, PutOutcome, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::identity::INSTALLATION;
use crate::server::LaunchError;

/// The secret with this name; created if missing.
pub(crate) async fn installation_secret(
    store: &dyn Store,
    name: &'static str,
) -> Result<[u8; 32], LaunchError> {
    #[derive(Serialize, Deserialize)]
    struct SecretBody {
        secret: [u8; 32],
    }
    let catalog = store.catalog().ok_or(LaunchError::NoCatalog)?;
    let id = Name::new("setting", name).expect("a plain word");
    if let Some(item) = catalog.find_item(CatalogKind::Setting, &id).await?
        && let Ok(SecretBody { secret }) = item.body.to()
    {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| LaunchError::NoRandom(error.to_string()))?;
    let body = Payload::of(&SecretBody { secret }).expect("bytes are JSON");
    let workspace = WorkspaceId::new(INSTALLATION).expect("a valid literal");
    let request = PutCatalogItem {
        workspace,
        kind: CatalogKind::Setting,
        name: id.to_string(),
        id,
        body,
        expected: None,
        note: None,
    };
    match catalog.put_item(request).await? {
        PutOutcome::Put(_) => Ok(secret),
        // Another node was faster; its secret is used.
        PutOutcome::Exists(item) | PutOutcome::NameTaken(item) | PutOutcome::Stale(item) => item
            .body
            .to()
            .map(|SecretBody { secret }| secret)
            .map_err(|error| StoreError::Broken(error.to_string()).into()),
        PutOutcome::Missing => Err(StoreError::Broken(format!("the setting {name} vanished")).into()),
    }
}
