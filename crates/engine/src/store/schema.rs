//! How far the tables of a database are behind what this program knows.

/// The version of a store's tables, and what it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaState {
    /// The version found; 0 if there are no tables yet.
    pub found: i32,
    /// The version this program works with.
    pub known: i32,
    /// The names of the migrations from the one to the other, in order.
    pub pending: Vec<&'static str>,
}

impl SchemaState {
    /// The state of tables at version `found`, given all migrations that this program has.
    pub fn new(found: i32, migrations: impl IntoIterator<Item = &'static str>) -> Self {
        let all: Vec<&'static str> = migrations.into_iter().collect();
        let known = i32::try_from(all.len()).expect("migrations are few");
        let pending = all.into_iter().skip(usize::try_from(found).unwrap_or(0)).collect();
        SchemaState { found, known, pending }
    }

    /// Is there nothing to do?
    pub fn is_up_to_date(&self) -> bool {
        self.pending.is_empty()
    }
}
