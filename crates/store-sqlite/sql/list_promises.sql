-- Of one workspace up to ?6 as they stand at ?3; ?4 is the status or NULL. One whose time ran out has timed out, written or not. Those by which people
-- rule on doubts are left out.
SELECT p.id, p.run, p.created_at, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.create_key, p.about,
    p.complete_key, p.said
FROM hapax_promises AS p
WHERE p.workspace = ?1 AND p.id > ?2 AND p.id <= ?6 AND instr(p.id, '~doubt-') = 0
    AND (?4 IS NULL OR ?4 = CASE WHEN p.status = 0 AND p.deadline_at <= ?3 THEN 3 ELSE p.status END)
ORDER BY p.id
LIMIT ?5
