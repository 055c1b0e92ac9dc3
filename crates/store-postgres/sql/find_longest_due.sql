-- The first of all runs that time alone makes due: from one workflow, version and priority to the next through the index, $1 of them at most. Workflows
-- are numbered from 1.
WITH RECURSIVE first_due (workflow, workflow_version, priority, wake_at, number) AS (
    SELECT 0::int4, 0::int4, 0::int2, NULL::int8, 0::int8
    UNION ALL
    SELECT n.workflow, n.workflow_version, n.priority, n.wake_at, f.number + 1
    FROM first_due AS f
        CROSS JOIN LATERAL (
            SELECT r.workflow, r.workflow_version, r.priority, r.wake_at
            FROM runs AS r
            WHERE r.wake_at IS NOT NULL
                AND (r.workflow, r.workflow_version, r.priority) > (f.workflow, f.workflow_version, f.priority)
            ORDER BY r.workflow, r.workflow_version, r.priority, r.wake_at
            LIMIT 1
        ) AS n
    WHERE f.number < $1
)
SELECT min(wake_at) FROM first_due
