-- All that can change. The row was locked when it was read.
UPDATE posts SET attempts = $3, status = $4, at = $5, owner = $6, failure = $7 WHERE workspace = $1 AND id = $2
