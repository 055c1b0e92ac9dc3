-- Serves list_runs_with_subject: ended runs as well. Runs without a subject are not in it.
CREATE INDEX hapax_run_facts_subjects ON hapax_run_facts (workspace, subject, id) WHERE subject IS NOT NULL;

PRAGMA user_version = 10;
