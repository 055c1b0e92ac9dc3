-- Stops at the first that is not free; those that are free are purged and few. Every instant is later than $2.
SELECT first_seen_at
FROM requests
WHERE first_seen_at >= $2 AND (free_at IS NULL OR free_at > $1)
ORDER BY first_seen_at
LIMIT 1
