-- Which workspace a run id is taken in: $2, if it has a run with the id, before any other.
SELECT workspace FROM run_facts WHERE id = $1 ORDER BY workspace <> $2 LIMIT 1
