-- All that can change. The row was locked when it was read.
UPDATE items SET name = $3, version = $4, body = $5, changed_at = $6 WHERE kind = $1 AND id = $2
