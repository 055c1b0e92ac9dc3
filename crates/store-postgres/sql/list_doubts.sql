-- $4 is the workspace or NULL.
SELECT (SELECT w.name FROM workspaces AS w WHERE w.id = s.workspace), s.run, s.step, s.kind, s.status, s.attempts,
    s.started_at, s.started_version, s.changed_version, s.fence, s.at, s.value, s.child
FROM steps AS s
WHERE s.status = 7 AND (s.at, s.run, s.step) > ($1::int8, $2::uuid, $3::text) AND ($4::int4 IS NULL OR s.workspace = $4)
ORDER BY s.at, s.run, s.step
LIMIT $5
