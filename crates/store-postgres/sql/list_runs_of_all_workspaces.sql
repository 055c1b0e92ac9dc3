-- For checks of the whole store; $4 names the wanted statuses.
SELECT f.workspace, f.id
FROM run_facts AS f
    JOIN runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.id <= $1 AND ($2::int4 IS NULL OR r.workflow = $2) AND r.status = ANY ($4::int2[])
ORDER BY f.id DESC
LIMIT $3
