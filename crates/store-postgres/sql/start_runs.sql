-- The hot path of starts: those that nothing stands against are made, any number at once; answers with them.
--
-- Keys are taken in the order of the input. Whoever wants one that another transaction is about to take waits for the
-- outcome of that transaction, so that no start ever depends on one that is rolled back. See advance_runs.sql for LIMIT.
WITH input AS (
    SELECT *
    FROM unnest($3::int4[], $4::int4[], $5::uuid[], $6::int4[], $7::int4[], $8::int2[], $9::int2[], $10::int8[], $11::int8[],
        $12::uuid[], $13::int8[], $14::int8[], $15::text[], $16::bytea[], $17::int8[], $18::bool[], $19::int8[], $20::uuid[],
        $21::text[], $22::bool[], $23::text[], $24::text[])
        AS u (n, workspace, id, workflow, workflow_version, priority, status, fence, wake_at,
            lease_owner, started_at, created_at, key, fingerprint, keep_key_for_ms, release_on_failure, deadline_at, parent,
            parent_step, cancel_with_parent, input, note)
    LIMIT $1::int8
), fresh AS MATERIALIZED (
    SELECT * FROM input AS i WHERE NOT EXISTS (SELECT FROM run_facts AS f WHERE f.id = i.id)
), keyed AS (
    INSERT INTO keys (workspace, kind, key, run, fingerprint, first_seen_at)
    SELECT workspace, 0, key, id, fingerprint, $2::int8 FROM fresh WHERE key IS NOT NULL
    ON CONFLICT (workspace, kind, key) DO UPDATE
    SET run = excluded.run, fingerprint = excluded.fingerprint, first_seen_at = excluded.first_seen_at, expires_at = NULL,
        replays = 0, conflicts = 0
    WHERE keys.expires_at <= $2::int8
    RETURNING run
), won AS MATERIALIZED (
    SELECT * FROM fresh WHERE key IS NULL OR (id IN (SELECT run FROM keyed)) IS TRUE
), made AS (
    INSERT INTO runs (workspace, workflow, id, version, changed_at, fence, wake_at, arrivals, started_at, lease_owner,
        workflow_version, stalls, generation, status, asked, priority)
    SELECT workspace, workflow, id, 1, $2::int8, fence, wake_at, 0, started_at, lease_owner, workflow_version, 0, 0, status, 0,
        priority
    FROM won
), described AS (
    INSERT INTO run_facts (workspace, id, created_at, key, fingerprint, keep_key_for_ms, release_on_failure, deadline_at,
        parent, parent_step, cancel_with_parent, input)
    SELECT workspace, id, created_at, key, fingerprint, keep_key_for_ms, release_on_failure, deadline_at, parent,
        parent_step, cancel_with_parent, input
    FROM won
), told AS (
    INSERT INTO events (workspace, run, version, at, fence, kind, note)
    SELECT workspace, id, 1, $2::int8, fence, 0, note FROM won
)
SELECT n FROM won
