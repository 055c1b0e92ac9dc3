//! Schema versions: how far a database is behind this program.

/// Version of a store's tables, and the pending migrations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaState {
    /// Version of the tables. 0 if there are none yet.
    pub found: i32,
    /// Version that this program needs.
    pub known: i32,
    /// Names of the pending migrations, in order.
    pub pending: Vec<&'static str>,
}

impl SchemaState {
    /// State of tables at version `found`, given all migrations of this program.
    pub fn new(found: i32, migrations: impl IntoIterator<Item = &'static str>) -> Self {
        let all: Vec<&'static str> = migrations.into_iter().collect();
        let known = i32::try_from(all.len()).expect("migrations are few");
        let pending = all.into_iter().skip(usize::try_from(found).unwrap_or(0)).collect();
        SchemaState { found, known, pending }
    }

    /// Returns true if no migration is pending.
    pub fn is_up_to_date(&self) -> bool {
        self.pending.is_empty()
    }
}
