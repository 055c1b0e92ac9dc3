-- The row was locked when it was read.
DELETE FROM posts WHERE workspace = $1 AND id = $2
