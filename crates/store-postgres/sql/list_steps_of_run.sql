SELECT step, kind, status, attempts, started_at, started_version, changed_version, fence, at, value, child
FROM steps
WHERE workspace = $1 AND run = $2 AND generation = $3
ORDER BY started_version, step
