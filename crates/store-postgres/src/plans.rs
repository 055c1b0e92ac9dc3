//! A million finished runs cost a new one nothing: no statement scans a table of any size.
//!
//! The plans are made once per connection, when the tables may still be empty, and must stay right.

use hapax_engine::model::TableRef;
use hapax_postgres_fixture::Database;
use tokio_postgres::Client;

use crate::connect::{configure, connect};
use crate::migrate::migrate;
use crate::options::PostgresOptions;
use crate::pools::Pools;
use crate::user_tables::UserTables;

/// Statements without a query, or without a table of runs.
const NO_PLAN: [&str; 6] = [
    "create_schema",
    "listen_due",
    "find_schema_version",
    "insert_schema_version",
    "find_user_schemas",
    "describe_table",
];

/// Rows that runs leave behind: a journal entry, and an after-effect that is delivered or still
/// due.
const LEAVE: &str = "INSERT INTO notes (workspace, run, generation, at, fence, body) SELECT workspace, id, 0, 0, 0, '1' FROM runs;
    INSERT INTO posts (workspace, id, run, target, created_at, attempts, status, at, payload)
    SELECT workspace, id::text, id, 'mail', 0, 0, 2 * (row_number() OVER () % 2), 0, '1' FROM runs
    ON CONFLICT DO NOTHING;
    INSERT INTO requests (workspace, caller, key, id, fingerprint, first_seen_at, status, token, until, method, path, outline)
    SELECT workspace, 'shop', id::text, id, sha256(''), 0, 0, 0, 0, 'POST', '/', '{}' FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO items (kind, id, workspace, name, version, body, created_at, changed_at)
    SELECT 2, id::text, workspace, id::text, 1, '1', 0, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO promises (workspace, id, run, status, key, keep_key_for_ms)
    SELECT workspace, id || ':paid', id, 0, id || ':paid', 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO promises (workspace, id, run, status, deadline_at)
    SELECT workspace, id::text, '00000000-0000-0000-0000-000000000000', 0, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO promise_waiters (workspace, promise, run) SELECT workspace, id::text, id FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO settle_tokens (digest, workspace, promise, expires_at)
    SELECT sha256(id::text::bytea), workspace, id::text, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO keys (workspace, kind, key, promise, first_seen_at)
    SELECT workspace, 1, id || ':paid', id || ':paid', 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO keys (workspace, kind, key, first_seen_at, expires_at)
    SELECT workspace, 1, id::text, 0, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO early_settlements (workspace, key, status, value, at, expires_at)
    SELECT workspace, id::text, 1, '1', 0, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO hooks (workspace, source, event, received_at, changed_at, duplicates, attempts, status, headers, body)
    SELECT workspace, 'stripe', id::text, 0, 0, 0, 0, row_number() OVER () % 2, '{}', '' FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO entities (workspace, kind, id, status, version, created_at, updated_at, data)
    SELECT workspace, 'invoice', id::text, 'open', 1, 0, 0, '{}' FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO operations (workspace, id, kind, entity, workflow, module, step, key, fingerprint, input, from_status, to_status,
        claim_into, revert_to, recovery, irreversible, has_run, version, attempt, owner, began_at, status, at)
    SELECT workspace, id, 'invoice', id::text, 'billing', 'billing', 'close', id::text, sha256(''), '1', 'open', 'closed',
        'closing', 'open', 0, false, false, 1, 1, id, 0, 0, 0 FROM runs ON CONFLICT DO NOTHING;
    INSERT INTO entity_notes (workspace, kind, entity, at, body) SELECT workspace, 'invoice', id::text, 0, '1' FROM runs";

/// Reads everything that was filled.
const LOOK: &str =
    "ANALYZE runs, run_facts, notes, posts, requests, items, promises, promise_waiters, settle_tokens, keys,
    early_settlements, hooks, entities, operations, entity_notes";

async fn explain(client: &Client, sql: &str) -> Vec<String> {
    let arguments = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
    client.batch_execute(&format!("PREPARE asked AS {sql}")).await.unwrap();
    let call = match arguments.is_empty() {
        true => String::new(),
        false => format!("({})", arguments.join(", ")),
    };
    let plan = client.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE asked{call}")).await.unwrap();
    client.batch_execute("DEALLOCATE asked").await.unwrap();
    let line = |message: &tokio_postgres::SimpleQueryMessage| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    plan.iter().filter_map(line).collect()
}

fn read_statement(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    std::fs::read_to_string(folder.join(name).with_extension("sql")).unwrap()
}

async fn check_all(client: &Client, rows: i32) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut walking = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        // Statements over users' tables are in a folder of their own.
        if NO_PLAN.contains(&name) || file.is_dir() {
            continue;
        }
        let plan = explain(client, &read_statement(name)).await;
        for (n, line) in plan.iter().enumerate() {
            let is_index_scan = line.contains("Index Scan") || line.contains("Index Only Scan");
            let has_condition = plan.get(n + 1).is_some_and(|next| next.contains("Index Cond"));
            // The first counts up to a bound. The second reads an index that holds only failures.
            let is_bounded = ["measure_outbox", "count_tallies"].contains(&name);
            if line.contains("Seq Scan")
                || line.contains("Hash Join")
                || (is_index_scan && !has_condition && !is_bounded)
            {
                walking.push(format!("{name}: {line} walks: {plan:#?}"));
            }
        }
    }
    assert!(walking.is_empty(), "{rows} rows: {}", walking.join("\n"));
}

/// Index of each statement, and its condition in it.
const GOES_BY: [(&str, &str, &str); 48] = [
    ("end_leases", "runs_due", "> ROW("),
    ("end_leases", "runs_due", "wake_at > "),
    ("list_runs_with_subject", "run_facts_subjects", "id <= "),
    ("list_runs_awaiting_promise", "promise_waiters_pkey", "run <= "),
    // S4.12: promises by key.
    ("find_promise_by_key", "keys_pkey", "key = "),
    ("find_promises_of_keys", "keys_pkey", "key = "),
    ("find_promise_keys", "keys_pkey", "key = "),
    ("lock_promise_keys", "keys_pkey", "key = "),
    ("write_promise_key", "keys_pkey", "key = "),
    // S4.13: keys by promise.
    ("delete_promises", "keys_of_promise", "promise = "),
    ("delete_promises_of_run", "keys_of_promise", "promise = "),
    ("delete_promises_of_runs", "keys_of_promise", "promise = "),
    ("list_waiters", "promise_waiters_pkey", "promise = "),
    ("list_promises_of_log", "promise_waiters_of_run", "run = "),
    ("list_promises_of_run", "promises_of_run", "run = "),
    ("list_promises", "promises_pkey", "id <= "),
    ("list_promises_alone", "promises_alone", "id <= "),
    ("find_promise_ahead", "promises_pkey", "id > "),
    ("find_promise_ahead_alone", "promises_alone", "id > "),
    ("find_longest_due", "runs_due", "> ROW("),
    ("list_queues", "runs_due", "priority > "),
    ("list_promises_to_purge", "promises_alone_over", "< $1"),
    ("list_early", "early_settlements_pkey", "key > "),
    ("find_settle_token", "settle_tokens_pkey", "digest = "),
    ("receive_inbound_event", "hooks_workspace_source_event_key", "event = "),
    ("find_inbound_event", "hooks_workspace_source_event_key", "event = "),
    ("list_inbound_events", "hooks_pkey", "place < "),
    ("list_unprocessed_events", "hooks_unprocessed", "received_at < "),
    ("purge_inbound_events", "hooks_processed", "received_at < "),
    ("find_entity", "entities_pkey", "id = "),
    ("lock_entities", "entities_pkey", "id = "),
    ("write_entities", "entities_pkey", "id = "),
    ("list_entities", "entities_pkey", "id > "),
    ("list_entities_in_status", "entities_in_status", "id > "),
    ("lock_operations", "operations_pkey", "id = "),
    ("lock_keyed_operations", "operations_by_key", "key = "),
    ("find_holders", "operations_that_hold", "entity = "),
    ("find_last_operations", "operations_of_step", "step >= "),
    ("list_operations", "operations_pkey", "id < "),
    ("list_operations_in_status", "operations_in_status", "id < "),
    ("list_operations_of_entity", "operations_of_entity", "id < "),
    ("list_stale_operations", "operations_pending", "at < "),
    ("list_doubted_operations", "operations_doubted", "> ROW("),
    ("find_document_versions", "items_pkey", "id = "),
    ("list_entity_notes", "entity_notes_of_entity", "place > "),
    ("list_operations_to_purge", "operations_pkey", "id > "),
    ("list_operations_to_purge", "operations_of_step", "step >= "),
    ("list_operations_to_purge", "posts_pkey", "id > "),
];

async fn check_indexes(client: &Client) {
    for (name, index, sought) in GOES_BY {
        let plan = explain(client, &read_statement(name)).await;
        let by_it =
            |lines: &[String]| lines[0].contains(&format!("using {index} on")) && lines[1].contains(sought);
        assert!(plan.windows(2).any(by_it), "{name} does not go by {index}: {plan:#?}");
    }
}

/// S4.12, S4.13: promises by key, and keys by promise; and everything else.
#[tokio::test]
async fn every_statement_goes_by_an_index_whether_the_tables_are_empty_or_full() {
    let database = Database::empty().await.unwrap();
    let options = PostgresOptions::default();
    migrate(&database.url(), &options).await.unwrap();
    let address = configure(&database.url(), &options).unwrap();
    let client = connect(&address).await.unwrap();
    check_all(&client, 0).await;
    // Scanning a table of one row is as good as a lookup, so that says nothing.
    for rows in [2, 1, 20, 3_000] {
        let fill = "INSERT INTO runs (workspace, workflow, id, version, changed_at, fence, wake_at, arrivals,
                workflow_version, stalls, generation, status, asked, priority)
            SELECT 1, 1, gen_random_uuid(), 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 FROM generate_series(1, $1::int4)";
        client.execute(fill, &[&rows]).await.unwrap();
        let describe = "INSERT INTO run_facts (workspace, id, created_at, release_on_failure, input)
            SELECT workspace, id, 0, false, '1' FROM runs ON CONFLICT DO NOTHING";
        client.execute(describe, &[]).await.unwrap();
        client.batch_execute(LEAVE).await.unwrap();
        client.batch_execute(LOOK).await.unwrap();
        check_all(&client, rows).await;
    }
    check_indexes(&client).await;
}

/// Claiming a row costs no more in a large table than in a small one, for every type of id.
#[tokio::test]
async fn a_row_of_a_table_of_the_users_is_found_by_its_own_index() {
    let database = Database::empty().await.unwrap();
    let options = PostgresOptions::default();
    migrate(&database.url(), &options).await.unwrap();
    let address = configure(&database.url(), &options).unwrap();
    let (client, pools) = (connect(&address).await.unwrap(), Pools::new(&address, &options));
    let held = pools.reads.get().await.unwrap();
    for id_type in ["bigint", "int", "smallint", "uuid", "text", "varchar(40)", "char(8)", "numeric", "date"]
    {
        let make = format!(
            "DROP TABLE IF EXISTS public.orders;
            CREATE TABLE public.orders (id {id_type} PRIMARY KEY, status text, version bigint, updated_at timestamptz)"
        );
        client.batch_execute(&make).await.unwrap();
        let table = TableRef::new("public.orders").unwrap();
        let orders = UserTables::default().get_table(held.link(), &table).await.unwrap();
        for sql in [&orders.find, &orders.list_after, &orders.lock, &orders.write] {
            let plan = explain(&client, sql).await;
            let by_it = |lines: &[String]| {
                lines[0].contains("using orders_pkey on") && lines[1].contains("Index Cond: (id ")
                    || lines[1].contains("Index Cond: ((id)::")
            };
            assert!(plan.windows(2).any(by_it), "{id_type}: {sql} {plan:#?}");
        }
    }
}
