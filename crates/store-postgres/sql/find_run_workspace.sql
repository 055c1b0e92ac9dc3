-- Which workspace a run id is taken in.
SELECT workspace FROM run_facts WHERE id = $1
