-- Lists of runs by subject.
--
-- Only adds an index: the version before goes on beside it. Runs without a subject, which the hot path starts, are not in it.

-- Serves list_runs_with_subject: ended runs as well.
CREATE INDEX run_facts_subjects ON run_facts (workspace, subject, id) WHERE subject IS NOT NULL;
