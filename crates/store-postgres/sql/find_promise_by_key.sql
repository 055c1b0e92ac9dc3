-- The promise that a key names at $3. OFFSET 0 keeps the planner from walking over all keys that name promises.
SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM (SELECT * FROM keys WHERE workspace = $1 AND kind = 1 AND key = $2 OFFSET 0) AS k
    JOIN promises AS p ON p.workspace = k.workspace AND p.id = k.promise
WHERE k.expires_at IS NULL OR k.expires_at > $3
