-- Open and ended ones.
SELECT id FROM hapax_run_facts INDEXED BY hapax_run_facts_subjects
WHERE workspace = ?1 AND subject = ?2 AND id < ?3
ORDER BY id DESC
LIMIT ?4
