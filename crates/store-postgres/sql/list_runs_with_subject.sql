-- Open and ended ones.
SELECT workspace, id FROM run_facts
WHERE workspace = $1 AND subject = $2 AND id <= $3
ORDER BY id DESC
LIMIT $4
