-- Of one workspace, the newest first, before a place; $4 is the source or NULL, $5 the status or NULL.
SELECT source, event, place, received_at, changed_at, duplicates, attempts, status, outcome, headers, body
FROM hooks
WHERE workspace = $1 AND place < $2 AND ($4::text IS NULL OR source = $4) AND ($5::int2 IS NULL OR status = $5)
ORDER BY place DESC
LIMIT $3
