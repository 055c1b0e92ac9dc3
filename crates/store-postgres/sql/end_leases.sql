-- Ends leases of the owner $1 at $2, as many as $4: those that would end until $3. From one workflow, version and priority to the next
-- through the index, $5 of them at most. Workflows are numbered from 1.
WITH RECURSIVE queues (workflow, workflow_version, priority, number) AS (
    SELECT 0::int4, 0::int4, 0::int2, 0::int8
    UNION ALL
    SELECT n.workflow, n.workflow_version, n.priority, q.number + 1
    FROM queues AS q
        CROSS JOIN LATERAL (
            SELECT r.workflow, r.workflow_version, r.priority
            FROM runs AS r
            WHERE r.wake_at IS NOT NULL
                AND (r.workflow, r.workflow_version, r.priority) > (q.workflow, q.workflow_version, q.priority)
            ORDER BY r.workflow, r.workflow_version, r.priority, r.wake_at
            LIMIT 1
        ) AS n
    WHERE q.number < $5
),
held AS (
    SELECT l.workspace, l.id
    FROM queues AS q
        CROSS JOIN LATERAL (
            SELECT r.workspace, r.id
            FROM runs AS r
            WHERE r.workflow = q.workflow AND r.workflow_version = q.workflow_version AND r.priority = q.priority
                AND r.wake_at > $2 AND r.wake_at <= $3 AND r.lease_owner = $1
            LIMIT $4
        ) AS l
    ORDER BY l.id, l.workspace
    LIMIT $4
)
UPDATE runs AS r
SET wake_at = $2
FROM held AS h
WHERE r.workspace = h.workspace AND r.id = h.id AND r.lease_owner = $1 AND r.wake_at > $2
