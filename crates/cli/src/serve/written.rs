//! Values of settings as people write them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hapax::model::{Name, TableRef, WorkspaceId};
use hapax_documents::Span;
use hapax_outgoing::DestinationPattern;
use hapax_server::sealing::SealingKey;
use hapax_server::{ActionOrigins, EntityTables, ModuleOptions};

use crate::bounded_file;
use crate::limits::MAX_SEALING_KEY_BYTES;

/// The keys in these files.
pub(super) fn sealing_keys(files: &[PathBuf]) -> Result<Vec<SealingKey>> {
    let read = |path: &PathBuf| {
        let about = || format!("sealing-key-file: {}", path.display());
        let text = bounded_file::read_text(path, MAX_SEALING_KEY_BYTES).with_context(about)?;
        // Editors end files with a line end, which is not part of the key.
        SealingKey::from_secret(text.trim_end().as_bytes()).with_context(about)
    };
    files.iter().map(read).collect()
}

/// Modules as people write them: `billing`, or `billing:2m:5m`.
pub(super) fn modules(texts: &[String]) -> Result<Vec<ModuleOptions>> {
    let mut modules: Vec<ModuleOptions> = Vec::new();
    for text in texts {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let (name, spans) = match parts.as_slice() {
            [name] => (*name, None),
            [name, every, stale_after] => (*name, Some((*every, *stale_after))),
            _ => bail!("modules: {text:?} is not NAME or NAME:EVERY:STALE-AFTER, such as billing:2m:5m"),
        };
        Name::new("module", name).with_context(|| format!("modules: {text:?}"))?;
        ensure!(modules.iter().all(|module| module.name != name), "modules: {name} is named twice");
        let mut module = ModuleOptions::new(name);
        if let Some((every, stale_after)) = spans {
            let read = |text: &str| span("modules", Some(text.to_owned()));
            (module.every, module.stale_after) =
                (read(every)?.unwrap_or_default(), read(stale_after)?.unwrap_or_default());
            let least = hapax::limits::MIN_LEASE;
            ensure!(
                module.every >= least && module.stale_after >= least,
                "modules: {text:?}: a janitor looks, and waits, for at least {least:?}"
            );
        }
        modules.push(module);
    }
    Ok(modules)
}

/// Tables as people write them: `acme:invoices`, `acme:billing.invoices(id status version updated_at total)`.
pub(super) fn entity_tables(texts: &[String]) -> Result<EntityTables> {
    let mut tables = EntityTables::default();
    for text in texts {
        let Some((workspace, table)) = text.split_once(':') else {
            bail!("entity-tables: {text:?} is not WORKSPACE:TABLE, such as acme:invoices");
        };
        let about = || format!("entity-tables: {text:?}");
        let workspace = WorkspaceId::new(workspace.trim()).with_context(about)?;
        let (table, columns) = match table.trim().split_once('(') {
            Some((table, columns)) => match columns.strip_suffix(')').map(str::trim) {
                Some(columns) if !columns.is_empty() => (table.trim(), columns),
                _ => bail!("entity-tables: {text:?} does not name its columns as TABLE(COLUMN COLUMN …)"),
            },
            None => (table.trim(), ""),
        };
        let mut table = TableRef::new(table).with_context(about)?;
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let known = [&table.id, &table.status, &table.version, &table.updated_at];
        table.data = columns.iter().map(|column| (*column).to_owned()).collect();
        table.data.retain(|column| !known.contains(&column));
        table.check().with_context(about)?;
        tables.allow(workspace, table.table, columns);
    }
    Ok(tables)
}

pub(super) fn action_origins(texts: &[String]) -> Result<ActionOrigins> {
    let mut origins = ActionOrigins::default();
    for text in texts {
        origins = origins.with(text.trim()).with_context(|| {
            format!("action-origins: {text:?} is not an origin as browsers write it, such as https://admin.example.com")
        })?;
    }
    Ok(origins)
}

/// Places as people open them to one workspace: `acme:10.8.0.0/16`, `acme:billing.internal:8443`.
pub(super) fn workspace_places(texts: &[String]) -> Result<BTreeMap<WorkspaceId, Vec<DestinationPattern>>> {
    let mut places: BTreeMap<WorkspaceId, Vec<DestinationPattern>> = BTreeMap::new();
    for text in texts {
        let Some((workspace, place)) = text.split_once(':') else {
            bail!("workspace-allow: {text:?} is not WORKSPACE:PLACE, such as acme:10.8.0.0/16");
        };
        let about = || format!("workspace-allow: {text:?}");
        let workspace = WorkspaceId::new(workspace.trim()).with_context(about)?;
        places.entry(workspace).or_default().push(place.trim().parse().with_context(about)?);
    }
    Ok(places)
}

/// A duration as people write it: `24h`, `5m`, `1h30m`.
pub(super) fn span(name: &str, text: Option<String>) -> Result<Option<Duration>> {
    let Some(text) = text else { return Ok(None) };
    // Zero is a duration as well, for settings that can be turned off.
    if matches!(text.as_str(), "0" | "0s") {
        return Ok(Some(Duration::ZERO));
    }
    match Span::parse(&text) {
        Ok(span) => Ok(Some(span.get())),
        Err(why) => bail!("{name}: {text:?} is not a span of time: {why}"),
    }
}
