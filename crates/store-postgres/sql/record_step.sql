INSERT INTO steps (workspace, run, generation, step, kind, status, attempts, started_at, started_version,
    changed_version, fence, at, value, child)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (workspace, run, generation, step) DO UPDATE
SET kind = excluded.kind, status = excluded.status, attempts = excluded.attempts, started_at = excluded.started_at,
    started_version = excluded.started_version, changed_version = excluded.changed_version, fence = excluded.fence,
    at = excluded.at, value = excluded.value, child = excluded.child
