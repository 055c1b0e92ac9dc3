-- What waits, when the oldest of it was made, what was given up, and when the first of what waits was or will be due; each counted up to $1,
-- the last from target to target through the index.
WITH RECURSIVE first_due (target, at, number) AS (
    (SELECT target, at, 1::int8 FROM posts WHERE status < 2 ORDER BY target, at LIMIT 1)
    UNION ALL
    SELECT n.target, n.at, f.number + 1
    FROM first_due AS f
        CROSS JOIN LATERAL (
            SELECT p.target, p.at FROM posts AS p WHERE p.status < 2 AND p.target > f.target ORDER BY p.target, p.at LIMIT 1
        ) AS n
    WHERE f.number < $1
)
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM posts WHERE status < 2 LIMIT $1) AS waiting),
    (SELECT min(created_at) FROM (SELECT created_at FROM posts WHERE status < 2 LIMIT $1) AS waiting),
    (SELECT count(*) FROM (SELECT 1 FROM posts WHERE status <> 2 AND status = 3 LIMIT $1) AS dead),
    (SELECT min(at) FROM first_due)
