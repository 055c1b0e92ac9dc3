-- What waits, when the oldest of it was made, and what was given up; each counted up to $1.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM posts WHERE status < 2 LIMIT $1) AS waiting),
    (SELECT min(created_at) FROM (SELECT created_at FROM posts WHERE status < 2 LIMIT $1) AS waiting),
    (SELECT count(*) FROM (SELECT 1 FROM posts WHERE status <> 2 AND status = 3 LIMIT $1) AS dead)
