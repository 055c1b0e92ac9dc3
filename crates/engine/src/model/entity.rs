//! Business objects whose status is the state: who they are, where they live, and how they stand.

use super::name::excerpt;
use super::{EntityId, Invalid, Name, Payload, Timestamp, Version};
use crate::limits::{MAX_COLUMNS_SHOWN, MAX_IDENTIFIER_CHARS};

/// One business object of a workspace: what kind of thing it is, and its id among them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityRef {
    /// What kind of thing, such as `invoice`.
    pub kind: Name,
    /// Which.
    pub id: EntityId,
}

impl std::fmt::Display for EntityRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// A business object as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Which.
    pub entity: EntityRef,
    /// Its status, which is its state.
    pub status: Name,
    /// How often it was changed; every change of the status names the one it was judged by.
    pub version: Version,
    /// What else is known of it: a JSON object.
    pub data: Payload,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Entity {
    /// Would making it now, so, make the same? Then whoever asks to make it twice finds what they made.
    pub fn is_as_made(&self, status: &str, data: &Payload) -> bool {
        let read = |payload: &Payload| payload.to::<serde_json::Value>().ok();
        self.status.as_str() == status && read(&self.data) == read(data)
    }
}

/// Where the objects of a workflow live.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Home {
    /// In the entity table of the store.
    #[default]
    Own,
    /// In a table of the user's, in the database that the store lies in.
    Table(TableRef),
}

impl Home {
    /// The user's table, if it is one.
    pub fn table(&self) -> Option<&TableRef> {
        match self {
            Home::Own => None,
            Home::Table(table) => Some(table),
        }
    }
}

/// A table of the user's. All the engine has of it is these names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TableRef {
    /// The table, with its schema before a dot if it has one.
    pub table: String,
    /// The column of the id.
    pub id: String,
    /// The column of the status.
    pub status: String,
    /// The column of the version, a whole number.
    pub version: String,
    /// The column that says when the row was last changed.
    pub updated_at: String,
    /// Further columns, which make up what is known of the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

impl TableRef {
    /// The table of that name, with the usual names for its columns.
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

    /// Refuses what is not a plain identifier of SQL: names reach statements, values never do.
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
        if self.data.len() > MAX_COLUMNS_SHOWN {
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

/// What is known of an object after `patch` has been laid over it: its fields replace those of the same name.
pub fn merge_data(data: &Payload, patch: &Payload) -> Result<Payload, Invalid> {
    type Object = serde_json::Map<String, serde_json::Value>;
    let object = |payload: &Payload| {
        payload
            .to::<Object>()
            .map_err(|_| Invalid::Payload("what is known of an entity is a JSON object".into()))
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
