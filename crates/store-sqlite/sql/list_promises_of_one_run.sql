-- As list_promises, of one run or of those that stand alone.
SELECT p.id, p.run, p.created_at, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.create_key, p.about,
    p.complete_key, p.said
FROM hapax_promises AS p INDEXED BY hapax_promises_of_run
WHERE p.workspace = ?1 AND p.run = ?7 AND p.id > ?2 AND p.id <= ?6 AND instr(p.id, '~doubt-') = 0
    AND (?4 IS NULL OR ?4 = CASE WHEN p.status = 0 AND p.deadline_at <= ?3 THEN 3 ELSE p.status END)
ORDER BY p.id
LIMIT ?5
