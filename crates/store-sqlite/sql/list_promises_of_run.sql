SELECT id, run, deadline_at, status, settled_at, value
FROM promises INDEXED BY promises_of_run
WHERE workspace = ?1 AND run = ?2
ORDER BY id
