-- Locks due runs in the order wanted, as many as asked for, and passes over what others have locked.
SELECT i.n
FROM (
        SELECT * FROM unnest($1::int4[], $2::int4[], $3::uuid[]) AS u (n, workspace, id) ORDER BY n
    ) AS i
    CROSS JOIN LATERAL (
        SELECT 1
        FROM runs AS r
        WHERE r.workspace = i.workspace AND r.id = i.id AND r.wake_at <= $4
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
LIMIT $5
