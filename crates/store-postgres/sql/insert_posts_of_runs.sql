-- What writes under leases leave to be delivered; see insert_notes_of_runs.sql. One that is there already is left as it is.
INSERT INTO posts (workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload)
SELECT i.workspace, i.id, i.run, i.target, i.created_at, i.attempts, i.status, i.at, i.owner, i.failure, i.payload
FROM (
    SELECT *
    FROM unnest($2::int4[], $3::uuid[], $4::int8[], $5::int4[], $6::text[], $7::uuid[], $8::text[], $9::int8[], $10::int4[],
        $11::int2[], $12::int8[], $13::uuid[], $14::text[], $15::text[])
        AS u (written_workspace, written, token, workspace, id, run, target, created_at, attempts, status, at, owner, failure,
            payload)
    LIMIT $1::int8
) AS i
    JOIN runs AS r ON r.workspace = i.written_workspace AND r.id = i.written
WHERE r.token = i.token AND r.xmin = pg_current_xact_id()::xid
ON CONFLICT (workspace, id) DO NOTHING
