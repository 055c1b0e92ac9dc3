//! Checks if a user's table can be used.

use hapax_engine::model::TableRef;
use rusqlite::{Connection, params};

use crate::fault::{Fault, misfit};
use crate::rows;
use crate::user_tables::schema_and_name;

/// Refuses one that cannot, and says what to do.
pub(crate) fn check_table(connection: &Connection, table: &TableRef) -> Result<(), Fault> {
    table.check().map_err(|error| Fault::Refused(error.to_string()))?;
    let (schema, name) = schema_and_name(table);
    let mut list = connection.prepare_cached(include_str!("../sql/list_columns.sql"))?;
    let listed = rows::collect(list.query(params![name, schema])?, |mut row| Ok((row.get()?, row.get()?)));
    let columns: Vec<(String, i64)> = match listed {
        // There is no such schema.
        Err(Fault::Sql(error)) if misfit(&error).is_some() => Vec::new(),
        listed => listed?,
    };
    if columns.is_empty() {
        let why = format!("there is no table {} in this file: create it, or mend its name", table.table);
        return Err(Fault::Refused(why));
    }
    let named = [&table.id, &table.status, &table.version, &table.updated_at].into_iter().chain(&table.data);
    let is_missing = |name: &&String| !columns.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
    let missing: Vec<&str> = named.filter(is_missing).map(String::as_str).collect();
    if !missing.is_empty() {
        let why = format!(
            "the table {} has no column {}: add it, or mend its name",
            table.table,
            missing.join(", nor ")
        );
        return Err(Fault::Refused(why));
    }
    // A primary key of one whole number has no index of its own.
    let mut key = columns.iter().filter(|(_, place)| *place > 0);
    let is_key =
        key.next().is_some_and(|(column, _)| column.eq_ignore_ascii_case(&table.id)) && key.next().is_none();
    let mut find = connection.prepare_cached(include_str!("../sql/find_unique_index.sql"))?;
    if !is_key && !find.exists(params![name, schema, table.id])? {
        let why = format!(
            "nothing keeps two rows of {} from having the same {id}: make {id} the primary key, or add a unique index on it alone",
            table.table,
            id = table.id,
        );
        return Err(Fault::Refused(why));
    }
    Ok(())
}
