-- As find_promise_ahead, of those that stand alone.
SELECT id
FROM promises
WHERE workspace = $1 AND run = '00000000-0000-0000-0000-000000000000' AND id > $2
ORDER BY id
LIMIT 1 OFFSET $3
