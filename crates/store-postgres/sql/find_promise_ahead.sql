-- The promise that lies $3 behind the one after $2.
SELECT id FROM promises WHERE workspace = $1 AND id > $2 ORDER BY id LIMIT 1 OFFSET $3
