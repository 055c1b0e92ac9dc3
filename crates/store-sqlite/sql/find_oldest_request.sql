-- Stops at the first that is not free; those that are free are purged and few.
SELECT first_seen_at FROM hapax_requests INDEXED BY hapax_requests_by_age
WHERE free_at IS NULL OR free_at > ?1
ORDER BY first_seen_at
LIMIT 1
