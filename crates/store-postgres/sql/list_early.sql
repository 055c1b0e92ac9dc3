-- Of one workspace; those whose time is not over at $4.
SELECT key, status, value, complete_key, said, at, expires_at
FROM early_settlements
WHERE workspace = $1 AND key > $2 AND expires_at > $4
ORDER BY key
LIMIT $3
