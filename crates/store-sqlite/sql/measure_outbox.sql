-- What waits, when the oldest of it was made, what was given up, and when the first of what waits was or will be due; each counted up to ?1,
-- the last from target to target through the index.
WITH RECURSIVE targets (target) AS (
    SELECT (SELECT min(target) FROM hapax_posts INDEXED BY hapax_posts_due WHERE status < 2)
    UNION ALL
    SELECT (SELECT min(p.target) FROM hapax_posts AS p INDEXED BY hapax_posts_due WHERE p.status < 2 AND p.target > t.target)
    FROM targets AS t
    WHERE t.target IS NOT NULL
    LIMIT ?1
)
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM hapax_posts INDEXED BY hapax_posts_due WHERE status < 2 LIMIT ?1)),
    (SELECT min(made) FROM (SELECT created_at AS made FROM hapax_posts INDEXED BY hapax_posts_due WHERE status < 2 LIMIT ?1)),
    (SELECT count(*) FROM (SELECT 1 FROM hapax_posts INDEXED BY hapax_posts_undelivered WHERE status <> 2 AND status = 3 LIMIT ?1)),
    (SELECT min(first_due) FROM (
        SELECT (SELECT min(p.at) FROM hapax_posts AS p INDEXED BY hapax_posts_due WHERE p.status < 2 AND p.target = t.target) AS first_due
        FROM targets AS t))
