-- Of one workspace up to $6; $4 is the status at $5 or NULL. Those by which people rule on doubts are left out.
SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM promises AS p
WHERE p.workspace = $1 AND p.id > $2 AND p.id <= $6 AND p.id NOT LIKE '%~doubt-%'
    AND ($4::int2 IS NULL OR CASE WHEN p.status = 0 AND p.deadline_at <= $5 THEN 3 ELSE p.status END = $4)
ORDER BY p.id
LIMIT $3
