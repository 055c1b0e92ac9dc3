-- Highest number of a try under an effect key.
SELECT coalesce(max(attempt), 0)
FROM notes
WHERE workspace = $1 AND effect = $2 AND attempt > 0
