-- Which workspace a run id is taken in.
SELECT workspace FROM hapax_run_facts WHERE id = ?1
