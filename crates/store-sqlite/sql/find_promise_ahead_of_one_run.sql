-- As find_promise_ahead, of one run or of those that stand alone.
SELECT id
FROM hapax_promises INDEXED BY hapax_promises_of_run
WHERE workspace = ?1 AND run = ?4 AND id > ?2
ORDER BY id
LIMIT 1 OFFSET ?3
