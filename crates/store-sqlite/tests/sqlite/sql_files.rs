//! SQL lives in files, one statement each, and is never put together from parts, unless it is about tables of the user's: then the
//! names of these take the places in braces.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|found| found == end)).collect()
}

/// All code but the tests, which may say what they like.
fn source() -> String {
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap();
    files("src", "rs").iter().map(|file| code(&read(file)).to_owned()).collect()
}

fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn no_statement_is_put_together_from_parts() {
    for file in files("src", "rs") {
        let text = fs::read_to_string(&file).unwrap();
        for line in code(&text).lines().filter(|line| line.contains("format!") || line.contains("concat!")) {
            for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "PRAGMA ", "CREATE ", " WHERE "] {
                assert!(!line.contains(word), "{}: {line}", file.display());
            }
        }
    }
}

#[test]
fn every_statement_has_a_file_and_every_file_is_used() {
    let source = source();
    let used: Vec<&str> =
        source.split("include_str!(\"../sql/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    for file in files("sql", "sql") {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(used.contains(&name), "nothing uses {name}");
    }
    for file in files("sql/user_tables", "sql") {
        let name = format!("user_tables/{}", file.file_name().unwrap().to_str().unwrap());
        assert!(used.contains(&name.as_str()), "nothing uses {name}");
    }
    for call in ["prepare_cached(\"", "prepare(\"", ".execute(\"", "query_row(\""] {
        let outside = source.split(call).nth(1);
        assert!(outside.is_none(), "a statement outside its file: {:.60}", outside.unwrap_or_default());
    }
}

#[test]
fn a_file_holds_one_statement_unless_it_sets_up_a_connection() {
    for file in files("sql", "sql").into_iter().chain(files("sql/user_tables", "sql")) {
        let text = fs::read_to_string(&file).unwrap();
        let statements = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let ends = statements.filter(|line| line.contains(';')).count();
        let sets_up = file.file_name().unwrap().to_str().unwrap().starts_with("set_up_");
        assert!(sets_up || ends == 0, "{}", file.display());
    }
}

/// Every statement with its name, and an empty store to compile it on.
fn statements() -> (Connection, Vec<(String, String)>) {
    let connection = Connection::open_in_memory().unwrap();
    let mut migrations = files("migrations", "sql");
    migrations.sort();
    for migration in migrations {
        connection.execute_batch(&fs::read_to_string(migration).unwrap()).unwrap();
    }
    let all = files("sql", "sql").into_iter().map(|file| {
        (file.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(file).unwrap())
    });
    (connection, all.filter(|(_, sql)| !sql.contains("PRAGMA")).collect())
}

fn explain(connection: &Connection, how: &str, sql: &str, column: usize) -> Vec<String> {
    let mut explain = connection.prepare(&format!("{how} {sql}")).unwrap();
    let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
    let rows = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get(column)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// A million finished runs cost a new one nothing: no statement walks over a table, or sorts what it found.
#[test]
fn every_statement_finds_its_rows_by_an_index() {
    /// Allowed table scans of statements, and the reasons.
    const MAY: &[(&str, &str)] = &[
        ("find_any_table", "SCAN sqlite_schema"),
        // Once per opening, over open runs only.
        ("wake_leased_runs", "SCAN hapax_runs USING INDEX hapax_runs_open"),
        // The same, over after-effects that are not delivered.
        ("wake_claimed_posts", "SCAN hapax_posts USING INDEX hapax_posts_undelivered"),
        // The same, over requests in progress.
        ("end_holds", "SCAN hapax_requests USING INDEX hapax_requests_held"),
        // Families that are being cancelled, until their last member has been told.
        ("list_unswept_families", "SCAN f USING INDEX hapax_families_unswept"),
        // The records of one run, by the version they started at.
        ("list_steps_of_run", "USE TEMP B-TREE FOR ORDER BY"),
        // The same, for filters on the current step.
        ("find_current_step", "USE TEMP B-TREE FOR ORDER BY"),
        // Stops at the first request whose key is not free; free ones are purged.
        ("find_oldest_request", "SCAN hapax_requests USING INDEX hapax_requests_by_age"),
        // Items that changed lately.
        ("list_changed_items", "USE TEMP B-TREE FOR ORDER BY"),
        // Keys that expired in the same millisecond.
        ("list_expired_keys", "USE TEMP B-TREE FOR LAST 3 TERMS OF ORDER BY"),
        // The operations of one entity.
        ("list_operations_of_entity", "USE TEMP B-TREE FOR ORDER BY"),
        // Operations under way.
        ("list_pending_operations", "USE TEMP B-TREE FOR ORDER BY"),
        // Claims that are held now.
        ("list_open_claims", "USE TEMP B-TREE FOR DISTINCT"),
        ("list_open_claims", "USE TEMP B-TREE FOR ORDER BY"),
        // The columns and indexes of one table of the user's.
        ("list_columns", "SCAN pragma_table_xinfo VIRTUAL TABLE INDEX 0:"),
        ("find_unique_index", "SCAN l VIRTUAL TABLE INDEX 0:"),
        ("find_unique_index", "SCAN pragma_index_info VIRTUAL TABLE INDEX 0:"),
        ("find_unique_index", "SCAN i VIRTUAL TABLE INDEX 0:"),
        // Promises that were over in the same millisecond.
        ("list_promises_to_purge", "USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY"),
    ];
    let (connection, statements) = statements();
    for (name, sql) in &statements {
        for step in explain(&connection, "EXPLAIN QUERY PLAN", sql, 3) {
            let is_allowed = MAY.contains(&(name.as_str(), step.as_str()));
            // How a subquery finds its rows is a step of its own.
            let is_subquery =
                step.starts_with("SCALAR SUBQUERY") || step.starts_with("CORRELATED SCALAR SUBQUERY");
            let is_search = is_subquery || step.starts_with("SEARCH");
            // It counts, and stops at a bound.
            let is_bounded = name == "measure_outbox" && !step.contains("TEMP");
            // It scans the evidence, and successful effects have none.
            let walks = step.starts_with("SCAN hapax_") && !step.ends_with("hapax_notes_of_effects");
            let is_bounded = is_bounded || (name == "count_tallies" && !walks);
            // It counts in an index up to a bound, and then what it found.
            let is_bounded = is_bounded || (name == "count_open_runs" && !step.starts_with("SCAN hapax_"));
            assert!(is_search || is_allowed || is_bounded, "{name}: {step}");
        }
    }
}

/// Over tables of the user's: rows are found by their id, and lists walk in its order without sorting. Only the search for strays, which is made beside
/// the writer, looks at every row.
#[test]
fn statements_over_tables_of_the_user_find_rows_by_their_id() {
    let (connection, _) = statements();
    let tables = "CREATE TABLE invoices (id TEXT PRIMARY KEY, status TEXT, version INTEGER, updated_at TEXT, total INTEGER);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, version INTEGER, updated_at INTEGER, total INTEGER)";
    connection.execute_batch(tables).unwrap();
    for table in ["invoices", "orders"] {
        for file in files("sql/user_tables", "sql") {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let mut sql = fs::read_to_string(&file).unwrap();
            for column in ["id", "status", "version", "updated_at"] {
                sql = sql.replace(&format!("{{{column}}}"), &format!("\"{column}\""));
            }
            let sql = sql.replace("{table}", table).replace("{data}", ", t.\"total\"");
            assert!(!sql.contains('{'), "{sql}");
            for step in explain(&connection, "EXPLAIN QUERY PLAN", &sql, 3) {
                let may_walk = ["list_rows", "list_strays"].contains(&name) && step.starts_with("SCAN t");
                let is_search = step.starts_with("SEARCH") || step.starts_with("CORRELATED SCALAR SUBQUERY");
                assert!(is_search || may_walk, "{name} over {table}: {step}");
            }
        }
    }
}

/// Found by measuring: IN in a CHECK or a partial index makes SQLite build a table each time a row is written.
#[test]
fn no_write_builds_a_table_of_its_own() {
    let (connection, statements) = statements();
    for (name, sql) in statements.iter().filter(|(_, sql)| !sql.contains("RETURNING")) {
        let is_write = ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| sql.contains(verb));
        let codes = explain(&connection, "EXPLAIN", sql, 1);
        assert!(!is_write || !codes.contains(&"OpenEphemeral".to_owned()), "{name}");
    }
}
