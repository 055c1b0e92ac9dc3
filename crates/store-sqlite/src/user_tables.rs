//! Entities as rows in tables of the user's.
//!
//! Statements over these are the only ones that are put together, from the templates in `sql/user_tables/`: names of the table and its columns, once they
//! were checked to be plain identifiers, take the places in braces. Values are always bound.

use std::fmt::Write;

use hapax_engine::model::{Entity, EntityId, EntityRef, Name, Payload, TableRef, Timestamp, Version};
use hapax_engine::store::ListEntities;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, Row, params};
use serde_json::Value as Json;

use crate::check_table::check_table;
use crate::codes::{count, millis};
use crate::entities::FoundEntity;
use crate::fault::{Fault, misfit};

/// How a column keeps an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstantAs {
    /// As milliseconds since 1970.
    Millis,
    /// As text by RFC 3339.
    Text,
}

impl InstantAs {
    fn value(self, at: Timestamp) -> Value {
        match self {
            InstantAs::Millis => Value::Integer(millis(at)),
            InstantAs::Text => Value::Text(at.to_string()),
        }
    }
}

/// The schema and the name of a table. Those without a schema are in the file itself: a temporary one of the user's work must not come before.
pub(crate) fn schema_and_name(table: &TableRef) -> (&str, &str) {
    table.table.split_once('.').unwrap_or(("main", &table.table))
}

/// The statement over this table.
pub(crate) fn statement(template: &str, table: &TableRef) -> Result<String, Fault> {
    table.check().map_err(|error| Fault::Refused(error.to_string()))?;
    let mut parts = template.split('{');
    let mut sql = String::with_capacity(2 * template.len());
    sql.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (place, rest) = part.split_once('}').unwrap_or((part, ""));
        match place {
            "table" => {
                let (schema, name) = schema_and_name(table);
                push_quoted(&mut sql, schema);
                sql.push('.');
                push_quoted(&mut sql, name);
            }
            "id" => push_quoted(&mut sql, &table.id),
            "status" => push_quoted(&mut sql, &table.status),
            "version" => push_quoted(&mut sql, &table.version),
            "updated_at" => push_quoted(&mut sql, &table.updated_at),
            "data" => {
                for column in &table.data {
                    // With its table before it, for a name in quotes alone may be taken for a text.
                    sql.push_str(", t.");
                    push_quoted(&mut sql, column);
                }
            }
            other => return Err(Fault::Broken(format!("a template has a place for {other}"))),
        }
        sql.push_str(rest);
    }
    Ok(sql)
}

fn push_quoted(sql: &mut String, name: &str) {
    sql.push('"');
    sql.push_str(name);
    sql.push('"');
}

/// Makes a table that cannot be used the caller's matter; only to be used where nothing was written.
pub(crate) fn not_read(connection: &Connection, table: &TableRef, error: rusqlite::Error) -> Fault {
    let Some(why) = misfit(&error) else { return Fault::Sql(error) };
    match check_table(connection, table) {
        Ok(()) => Fault::Refused(format!("the table {} cannot be read: {why}", table.table)),
        Err(fault) => fault,
    }
}

pub(crate) fn find_row(
    connection: &Connection,
    table: &TableRef,
    entity: &EntityRef,
) -> Result<Option<FoundEntity>, Fault> {
    let failed = |error| not_read(connection, table, error);
    let sql = statement(include_str!("../sql/user_tables/find_row.sql"), table)?;
    let mut find = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = find.query([entity.id.as_str()]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let found = read_row(row, table, &entity.kind)?;
        // SQLite finds the row 42 by the text 042, and by another case if the column says so; to us these are different entities.
        if found.entity.entity.id == entity.id {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

pub(crate) fn list_rows(
    connection: &Connection,
    table: &TableRef,
    request: &ListEntities,
    limit: i64,
) -> Result<Vec<Entity>, Fault> {
    let failed = |error| not_read(connection, table, error);
    let status = request.status.as_ref().map(Name::as_str);
    let template = match request.after {
        None => include_str!("../sql/user_tables/list_rows.sql"),
        Some(_) => include_str!("../sql/user_tables/list_rows_after.sql"),
    };
    let sql = statement(template, table)?;
    let mut list = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = match &request.after {
        None => list.query(params![status, limit]),
        Some(after) => list.query(params![status, limit, after.as_str()]),
    }
    .map_err(failed)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        all.push(read_row(row, table, &request.kind)?.entity);
    }
    Ok(all)
}

/// Writes the status, version and instant of a row, if it still is as it was found.
pub(crate) fn write_row(
    connection: &Connection,
    table: &TableRef,
    found: &FoundEntity,
    entity: &Entity,
) -> Result<(), Fault> {
    let before = &found.entity;
    let refused = |why: &dyn std::fmt::Display| {
        let (id, status) = (&before.entity.id, &entity.status);
        Fault::TakenBack(format!("the row {id} of {} does not take the status {status}: {why}", table.table))
    };
    let sql = statement(include_str!("../sql/user_tables/write_row.sql"), table)?;
    let written = connection.prepare_cached(&sql).and_then(|mut write| {
        write.execute(params![
            before.entity.id.as_str(),
            before.status.as_str(),
            count(before.version.get()),
            entity.status.as_str(),
            count(entity.version.get()),
            found.instant_as.value(entity.updated_at),
        ])
    });
    match written {
        Ok(1) => Ok(()),
        Ok(0) => Err(refused(&"a trigger keeps it from being written")),
        Ok(rows) => Err(refused(&format!("{rows} rows have that id; make it unique"))),
        Err(error) => Err(match (misfit(&error), error.sqlite_error_code()) {
            (Some(why), _) => refused(&why),
            (None, Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)) => refused(&error),
            (None, _) => Fault::Sql(error),
        }),
    }
}

/// A row of the templates that find and list.
fn read_row(row: &Row<'_>, table: &TableRef, kind: &Name) -> Result<FoundEntity, Fault> {
    let id = text(row.get_ref(0)?).unwrap_or_default();
    let refused = |column: &str, why: &dyn std::fmt::Display| {
        Fault::Refused(format!("the row {id} of {} cannot be used: {column}: {why}", table.table))
    };
    let status = text(row.get_ref(1)?).ok_or_else(|| refused(&table.status, &"it is not a text"))?;
    let version = match row.get_ref(2)? {
        ValueRef::Integer(version) => u64::try_from(version).ok(),
        _ => None,
    };
    let version = version.ok_or_else(|| refused(&table.version, &"it is not a whole number from 0 on"))?;
    let instant: i64 = row.get(4)?;
    let mut data = serde_json::Map::new();
    for (place, name) in (5..).zip(&table.data) {
        data.insert(name.clone(), json(row.get_ref(place)?, || is_declared(row, place, "JSON")));
    }
    let entity = Entity {
        entity: EntityRef {
            kind: kind.clone(),
            id: EntityId::new(&id).map_err(|error| refused(&table.id, &error))?,
        },
        status: Name::new("status", &status).map_err(|error| refused(&table.status, &error))?,
        version: Version::new(version),
        data: Payload::of(&data).map_err(|error| refused("what is known of it", &error))?,
        updated_at: Timestamp::from_millis(instant),
    };
    // SQLite itself takes every type with INT in it for whole numbers.
    let instant_as = if is_declared(row, 3, "INT") { InstantAs::Millis } else { InstantAs::Text };
    Ok(FoundEntity { entity, instant_as })
}

/// Is the column at that place declared with a type that has this in its name?
fn is_declared(row: &Row<'_>, place: usize, part: &str) -> bool {
    let column = row.as_ref().columns().nth(place);
    column
        .is_some_and(|column| column.decl_type().is_some_and(|name| name.to_ascii_uppercase().contains(part)))
}

/// A text or a whole number, as text.
pub(crate) fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    }
}

fn json(value: ValueRef<'_>, is_json: impl FnOnce() -> bool) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(bytes) => {
            let document = is_json().then(|| serde_json::from_slice(bytes).ok()).flatten();
            document.unwrap_or_else(|| String::from_utf8_lossy(bytes).into())
        }
        ValueRef::Blob(bytes) => {
            let hex = |mut text: String, byte: &u8| {
                let _ = write!(text, "{byte:02x}");
                text
            };
            bytes.iter().fold("\\x".to_owned(), hex).into()
        }
    }
}
