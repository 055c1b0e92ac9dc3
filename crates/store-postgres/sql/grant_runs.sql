-- Grants, and runs put aside. The rows are locked, so that their versions are as they were read.
WITH input AS MATERIALIZED (
    SELECT *
    FROM unnest($2::int4[], $3::uuid[], $4::int8[], $5::int8[], $6::int2[], $7::int8[], $8::uuid[], $9::int4[], $10::int8[],
        $11::int2[], $12::text[])
        AS u (workspace, id, version, fence, status, wake_at, lease_owner, stalls, started_at, kind, note)
    LIMIT $1::int8
), granted AS (
    UPDATE runs AS r
    SET version = i.version, changed_at = $13, fence = i.fence, status = i.status, wake_at = i.wake_at,
        lease_owner = i.lease_owner, stalls = i.stalls, started_at = i.started_at
    FROM input AS i
    WHERE r.workspace = i.workspace AND r.id = i.id AND r.version = i.version - 1
)
INSERT INTO events (workspace, run, version, at, fence, kind, note)
SELECT workspace, id, version, $13, fence, kind, note FROM input
