//! Users' tables: their column descriptions, and the statements over them.
//!
//! Only these statements are built from templates. The only inserted text is names: names that
//! [`TableRef::check`] has accepted, and type names as the server spells them. Values are always
//! parameters.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use hapax_engine::model::{Entity, EntityId, EntityRef, Name, Payload, TableRef, Timestamp, Version};
use tokio::sync::OnceCell;

use crate::fault::Fault;
use crate::link::Link;
use crate::pools::Pools;
use crate::rows::{Columns, collect};

/// PostgreSQL's OID of the type.
const INT8: i64 = 20;
const INT2: i64 = 21;
const INT4: i64 = 23;
const TEXT: i64 = 25;
const BPCHAR: i64 = 1042;
const VARCHAR: i64 = 1043;
const TIMESTAMP: i64 = 1114;
const TIMESTAMPTZ: i64 = 1184;
const NUMERIC: i64 = 1700;
const UUID: i64 = 2950;

/// Tables in the store's own schema.
const OURS: [&str; 29] = [
    "clock_correction",
    "early_settlements",
    "entities",
    "entity_notes",
    "events",
    "families",
    "heads",
    "hooks",
    "identity",
    "items",
    "keys",
    "notes",
    "open_subjects",
    "operations",
    "posts",
    "promise_waiters",
    "promises",
    "requests",
    "run_facts",
    "run_heads",
    "run_results",
    "runs",
    "schema_versions",
    "settle_tokens",
    "signal_ids",
    "signals",
    "steps",
    "workflows",
    "workspaces",
];

/// Known tables. A description is dropped when a statement fails because the table has changed.
#[derive(Debug, Default)]
pub(crate) struct UserTables {
    tables: RwLock<HashMap<TableRef, Arc<UserTable>>>,
    /// Schemas that user code searches for an unqualified table.
    schemas: OnceCell<Vec<String>>,
}

/// A usable table.
#[derive(Debug)]
pub(crate) struct UserTable {
    ids: Ids,
    has_unique_id: bool,
    pub(crate) find: Arc<str>,
    pub(crate) list: Arc<str>,
    pub(crate) list_after: Arc<str>,
    pub(crate) lock: Arc<str>,
    pub(crate) write: Arc<str>,
    pub(crate) lock_strays: Arc<str>,
    pub(crate) try_id: Arc<str>,
}

/// Texts that can be ids in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Whole,
    Uuid,
    Text,
    /// Only the server knows.
    Other,
}

/// A column as the server describes it.
#[derive(Debug)]
struct Column {
    /// Type name for a cast.
    type_name: String,
    /// The type, or the base type of a domain.
    base: i64,
    is_domain: bool,
    is_unique: bool,
}

impl UserTables {
    /// Reads, once, the schemas that user code searches. Must be called before a transaction needs
    /// them.
    pub(crate) async fn learn_schemas(&self, pools: &Pools) -> Result<(), Fault> {
        let learn = || async {
            let held = pools.works.get().await?;
            let found = crate::read::query(&held, include_str!("../sql/find_user_schemas.sql"), &[]).await?;
            held.give_back();
            let schemas = collect(&found, |mut row| row.get::<Vec<String>>())?;
            Ok::<_, Fault>(schemas.into_iter().flatten().collect())
        };
        self.schemas.get_or_try_init(learn).await.map(drop)
    }

    /// Drops all descriptions; returns true if there were any.
    pub(crate) fn forget(&self) -> bool {
        let mut tables = self.tables.write().expect("no holder panics");
        let any = !tables.is_empty();
        tables.clear();
        any
    }

    /// Cached description of a table.
    pub(crate) fn find_known(&self, table: &TableRef) -> Option<Arc<UserTable>> {
        self.tables.read().expect("no holder panics").get(table).cloned()
    }

    /// Description of a table; an error if it cannot be used.
    pub(crate) async fn get_table(&self, link: Link<'_>, table: &TableRef) -> Result<Arc<UserTable>, Fault> {
        if let Some(known) = self.find_known(table) {
            return Ok(known);
        }
        table.check().map_err(|invalid| Fault::Refused(invalid.to_string()))?;
        let described = Arc::new(self.describe(link, table).await?);
        self.tables.write().expect("no holder panics").insert(table.clone(), described.clone());
        Ok(described)
    }

    async fn describe(&self, link: Link<'_>, table: &TableRef) -> Result<UserTable, Fault> {
        let (schemas, name) = match table.table.split_once('.') {
            Some((schema, name)) => (vec![schema.to_owned()], name),
            None => {
                (self.schemas.get().cloned().unwrap_or_else(|| vec!["public".into()]), table.table.as_str())
            }
        };
        let wanted: Vec<&str> = columns_of(table).collect();
        let statement = link.prepare(include_str!("../sql/describe_table.sql")).await?;
        let found = link.query(&statement, &[&schemas, &name, &wanted, &OURS.as_slice()]).await?;
        let Some(first) = found.first() else {
            let why = format!("there is no table {}: create it, or mend its name", table.table);
            return Err(Fault::Refused(why));
        };
        let mut first = Columns::of(first);
        let (schema, is_ours, kind): (String, bool, String) = (first.get()?, first.get()?, first.get()?);
        if is_ours || schema == "information_schema" || schema.starts_with("pg_") {
            return Err(Fault::Refused(format!("{} is no table of yours: name one that is", table.table)));
        }
        if kind != "r" && kind != "p" {
            return Err(Fault::Refused(format!("{} is not a table: name one that is", table.table)));
        }
        let mut columns = HashMap::new();
        for row in &found {
            let mut row = Columns::from_place(row, 3);
            if let Some(name) = row.get::<Option<String>>()? {
                let (type_name, base) = (row.get()?, row.get()?);
                let (is_domain, is_unique) = (row.get()?, row.get()?);
                columns.insert(name, Column { type_name, base, is_domain, is_unique });
            }
        }
        let missing: Vec<&str> =
            wanted.iter().copied().filter(|column| !columns.contains_key(*column)).collect();
        if !missing.is_empty() {
            let (table, missing) = (&table.table, missing.join(", "));
            return Err(Fault::Refused(format!(
                "table {table} has no column {missing}: add it, or mend its name"
            )));
        }
        UserTable::new(&quoted_name(&schema, name), table, &columns)
    }
}

fn columns_of(table: &TableRef) -> impl Iterator<Item = &str> {
    let usual = [&table.id, &table.status, &table.version, &table.updated_at];
    usual.into_iter().chain(&table.data).map(String::as_str)
}

/// The schema may have any name, so quotes are doubled.
fn quoted_name(schema: &str, name: &str) -> String {
    format!("\"{}\".\"{name}\"", schema.replace('"', "\"\""))
}

impl UserTable {
    fn new(name: &str, table: &TableRef, columns: &HashMap<String, Column>) -> Result<Self, Fault> {
        let (id, status) = (&columns[&table.id], &columns[&table.status]);
        let (version, updated_at) = (&columns[&table.version], &columns[&table.updated_at]);
        let refused = |column: &str, found: &Column, wanted: &str| {
            let (table, found) = (&table.table, &found.type_name);
            Err(Fault::Refused(format!("column {column} of table {table} is {found}: make it {wanted}")))
        };
        let ids = match id.base {
            _ if id.is_domain => Ids::Other,
            INT2 | INT4 | INT8 => Ids::Whole,
            TEXT | VARCHAR | BPCHAR => Ids::Text,
            UUID => Ids::Uuid,
            _ => Ids::Other,
        };
        // Integers of all sizes compare with each other, so a widened column still works.
        let id_type = if ids == Ids::Whole { "int8" } else { &id.type_name };
        if ![INT2, INT4, INT8, NUMERIC].contains(&version.base) {
            return refused(&table.version, version, "a whole number, such as bigint");
        }
        let at = format!("t.\"{}\"", table.updated_at);
        let (millis, instant) = match updated_at.base {
            TIMESTAMPTZ => (millis_of_instant(&at), "to_timestamp({ms} / 1000.0)".to_owned()),
            TIMESTAMP => {
                (millis_of_instant(&at), "(to_timestamp({ms} / 1000.0) AT TIME ZONE 'UTC')".to_owned())
            }
            INT2 | INT4 | INT8 | NUMERIC => (format!("{at}::int8"), "{ms}".to_owned()),
            _ => {
                return refused(&table.updated_at, updated_at, "timestamptz, or bigint for milliseconds");
            }
        };
        let data: Vec<String> = table.data.iter().map(|column| format!("t.\"{column}\"")).collect();
        let quoted = |column: &str| format!("\"{column}\"");
        let gaps = [
            ("{table}", name.to_owned()),
            ("{id}", quoted(&table.id)),
            ("{id_type}", id_type.to_owned()),
            ("{status}", quoted(&table.status)),
            ("{status_type}", status.type_name.clone()),
            ("{version}", quoted(&table.version)),
            ("{version_type}", version.type_name.clone()),
            ("{updated_at}", quoted(&table.updated_at)),
            ("{millis}", millis),
            ("{instant}", instant.replace("{ms}", "i.at")),
            ("{before}", instant.replace("{ms}", "$2::int8")),
            ("{data}", data.join(", ")),
        ];
        let fill = |text: &str| -> Arc<str> {
            gaps.iter().fold(text.to_owned(), |text, (gap, name)| text.replace(gap, name)).into()
        };
        Ok(UserTable {
            ids,
            has_unique_id: id.is_unique,
            find: fill(include_str!("../sql/of_users/find_row.sql")),
            list: fill(include_str!("../sql/of_users/list_rows.sql")),
            list_after: fill(include_str!("../sql/of_users/list_rows_after.sql")),
            lock: fill(include_str!("../sql/of_users/lock_rows.sql")),
            write: fill(include_str!("../sql/of_users/write_rows.sql")),
            lock_strays: fill(include_str!("../sql/of_users/lock_strays.sql")),
            try_id: fill(include_str!("../sql/of_users/try_id.sql")),
        })
    }

    /// Returns whether a row can have this id; `None` if only the server knows. Each row has one
    /// id: other spellings, such as 007, name nothing.
    pub(crate) fn may_have(&self, id: &EntityId) -> Option<bool> {
        let text = id.as_str();
        match self.ids {
            Ids::Whole => Some(text.parse::<i64>().is_ok_and(|number| number.to_string() == text)),
            Ids::Uuid => Some(uuid::Uuid::parse_str(text).is_ok_and(|id| id.to_string() == text)),
            Ids::Text => Some(true),
            Ids::Other => None,
        }
    }

    /// Rejects a table in which an id could name two rows.
    pub(crate) fn check_unique(&self, table: &TableRef) -> Result<(), Fault> {
        let (name, id) = (&table.table, &table.id);
        let why =
            || format!("table {name} has no unique index on {id} alone: add one, or make it the primary key");
        self.has_unique_id.then_some(()).ok_or_else(|| Fault::Refused(why()))
    }
}

/// Infinite timestamps have no milliseconds.
fn millis_of_instant(at: &str) -> String {
    format!("CASE WHEN isfinite({at}) THEN floor(extract(epoch FROM {at}) * 1000)::int8 END")
}

/// A row of the statements, as an entity of this type.
pub(crate) fn entity(kind: &Name, table: &TableRef, mut row: Columns<'_>) -> Result<Entity, Fault> {
    let refused = |id: &str, what: &str| {
        Fault::Refused(format!("the row {id} of table {} cannot be used: {what}", table.table))
    };
    let text = row.text()?;
    let id = EntityId::new(text).map_err(|invalid| refused(text, &invalid.to_string()))?;
    let status = row.maybe_text()?.ok_or_else(|| refused(text, "it has no status"))?;
    let status = Name::new("status", status).map_err(|invalid| refused(text, &invalid.to_string()))?;
    let version: Option<i64> = row.get()?;
    let version = version.and_then(|version| u64::try_from(version).ok());
    let version = version.ok_or_else(|| refused(text, "its version is not a number from 0 on"))?;
    let updated_at = row.maybe_at()?.unwrap_or(Timestamp::from_millis(0));
    let data: serde_json::Value = serde_json::from_str(row.text()?).map_err(crate::rows::broken)?;
    let data = Payload::of(&data).map_err(|invalid| refused(text, &invalid.to_string()))?;
    let entity = EntityRef { kind: kind.clone(), id };
    Ok(Entity { entity, status, version: Version::new(version), data, updated_at })
}

#[cfg(test)]
mod tests {
    use hapax_postgres_fixture::Database;

    use super::*;
    use crate::migrate::migrate;
    use crate::options::PostgresOptions;

    #[tokio::test]
    async fn every_table_of_the_store_is_known_as_its_own() {
        let database = Database::empty().await.unwrap();
        migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
        let admin = database.connect().await.unwrap();
        let list =
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'hapax' ORDER BY 1";
        let found = admin.query(list, &[]).await.unwrap();
        let found: Vec<String> = found.iter().map(|row| row.get(0)).collect();
        let (mut ours, mut found) = (OURS.map(str::to_owned).to_vec(), found);
        ours.sort();
        found.sort();
        assert_eq!(ours, found);
    }
}
