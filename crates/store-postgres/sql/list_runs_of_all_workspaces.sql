-- For checks of the whole store; $4 names the wanted statuses. OFFSET 0 keeps the planner from beginning with the runs.
SELECT f.workspace, f.id
FROM run_facts AS f
    CROSS JOIN LATERAL (
        SELECT r.workflow, r.status FROM runs AS r WHERE r.workspace = f.workspace AND r.id = f.id OFFSET 0
    ) AS r
WHERE f.id <= $1 AND ($2::int4 IS NULL OR r.workflow = $2) AND r.status = ANY ($4::int2[])
ORDER BY f.id DESC
LIMIT $3
