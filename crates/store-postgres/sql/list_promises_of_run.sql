-- See list_promises.sql. A run has few, so they are sorted here; OFFSET 0 keeps the planner from walking over those of all runs in
-- the order of ids instead.
SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM (SELECT * FROM promises WHERE workspace = $1 AND run = $6 OFFSET 0) AS p
WHERE p.id > $2 AND p.id NOT LIKE '%~doubt-%'
    AND ($4::int2 IS NULL OR CASE WHEN p.status = 0 AND p.deadline_at <= $5 THEN 3 ELSE p.status END = $4)
ORDER BY p.id
LIMIT $3
