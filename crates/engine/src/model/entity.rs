//! Entities: business objects whose status is their state.

use super::name::excerpt;
use super::{EntityId, Invalid, Name, Payload, Timestamp, Version};
use crate::limits::{MAX_DATA_COLUMNS, MAX_IDENTIFIER_CHARS};

/// Identifies an entity in a workspace by its kind and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityRef {
    /// Kind of the entity, such as `invoice`.
    pub kind: Name,
    /// Id of the entity within its kind.
    pub id: EntityId,
}

impl std::fmt::Display for EntityRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// An entity in its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Identifies the entity.
    pub entity: EntityRef,
    /// Status of the entity.
    pub status: Name,
    /// Number of changes so far. Every change of the status names the version it was decided on.
    pub version: Version,
    /// Further data: a JSON object.
    pub data: Payload,
    /// When the entity was last changed.
    pub updated_at: Timestamp,
}

impl Entity {
    /// Returns true if creating the entity with this status and data would give the same entity. Makes creation
    /// idempotent.
    pub fn matches_creation(&self, status: &str, data: &Payload) -> bool {
        let read = |payload: &Payload| payload.to::<serde_json::Value>().ok();
        self.status.as_str() == status && read(&self.data) == read(data)
    }
}

/// Where the entities of a workflow are stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EntityStorage {
    /// In the entity table of the store.
    #[default]
    BuiltIn,
    /// In a table of the user, in the same database as the store.
    UserTable(TableRef),
}

impl EntityStorage {
    /// The user's table, if the entities are stored in one.
    pub fn table(&self) -> Option<&TableRef> {
        match self {
            EntityStorage::BuiltIn => None,
            EntityStorage::UserTable(table) => Some(table),
        }
    }
}

/// A table of the user. The engine knows nothing about it but these names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TableRef {
    /// Name of the table, optionally with its schema before a dot.
    pub table: String,
    /// Column of the id.
    pub id: String,
    /// Column of the status.
    pub status: String,
    /// Column of the version, an integer.
    pub version: String,
    /// Column with the time of the last change.
    pub updated_at: String,
    /// Further columns, which make up the data of the entity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

impl TableRef {
    /// The table with this name and the default column names.
    pub fn new(table: &str) -> Result<Self, Invalid> {
        let column = |name: &str| name.to_owned();
        let table = TableRef {
            table: table.into(),
            id: column("id"),
            status: column("status"),
            version: column("version"),
            updated_at: column("updated_at"),
            data: Vec::new(),
        };
        table.check()?;
        Ok(table)
    }

    /// Rejects names that are not plain SQL identifiers. The names become part of SQL statements; values
    /// never do.
    pub fn check(&self) -> Result<(), Invalid> {
        let refused = |what, given: &str| Err(Invalid::Id { what, given: excerpt(given) });
        let mut parts = self.table.splitn(2, '.');
        if !parts.all(is_identifier) {
            return refused(
                "name of a table (letters, digits and _, with its schema before a dot)",
                &self.table,
            );
        }
        if self.table.rsplit('.').next().is_some_and(|table| table.to_ascii_lowercase().starts_with("hapax_"))
        {
            return refused("table of yours: those that begin with hapax_ are the store's", &self.table);
        }
        let columns = [&self.id, &self.status, &self.version, &self.updated_at].into_iter().chain(&self.data);
        let mut seen = std::collections::BTreeSet::new();
        for column in columns {
            if !is_identifier(column) {
                return refused("name of a column (letters, digits and _)", column);
            }
            if !seen.insert(column) {
                return refused("column of its own: it is named twice", column);
            }
        }
        if self.data.len() > MAX_DATA_COLUMNS {
            return refused("list of columns that is short enough", &self.table);
        }
        Ok(())
    }
}

fn is_identifier(text: &str) -> bool {
    let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let goes_on = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    begins && goes_on && text.len() <= MAX_IDENTIFIER_CHARS
}

/// Merges `patch` into `data`: its fields replace fields of the same name.
pub fn merge_data(data: &Payload, patch: &Payload) -> Result<Payload, Invalid> {
    type Object = serde_json::Map<String, serde_json::Value>;
    let object = |payload: &Payload| {
        payload
            .to::<Object>()
            .map_err(|_| Invalid::Payload("the data of an entity must be a JSON object".into()))
    };
    let mut merged = object(data)?;
    merged.extend(object(patch)?);
    Payload::of(&merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_cannot_carry_sql() {
        for good in ["invoices", "billing.invoices", "_t1"] {
            assert!(TableRef::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a b",
            "a;drop",
            "a.b.c",
            "1a",
            "a\"b",
            "hapax_runs",
            "public.HAPAX_runs",
            "x.",
            &"t".repeat(64),
        ] {
            assert!(TableRef::new(bad).is_err(), "{bad}");
        }
        let twice = TableRef { data: vec!["status".into()], ..TableRef::new("invoices").unwrap() };
        assert!(twice.check().is_err());
    }

    #[test]
    fn a_patch_replaces_fields_of_the_same_name() {
        let payload = |text| Payload::parse(text).unwrap();
        let merged = merge_data(&payload(r#"{"a":1,"b":2}"#), &payload(r#"{"b":3,"c":4}"#)).unwrap();
        assert_eq!(merged.as_str(), r#"{"a":1,"b":3,"c":4}"#);
        assert!(merge_data(&payload("{}"), &payload("[]")).is_err());
    }
}
