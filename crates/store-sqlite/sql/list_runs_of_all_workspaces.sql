-- For checks of the whole store; ?4 is a bit per wanted status.
SELECT f.id, f.workspace
FROM hapax_run_facts AS f
    CROSS JOIN hapax_runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.id < ?1 AND (?2 IS NULL OR r.workflow = ?2) AND (?4 >> r.status) & 1
ORDER BY f.id DESC
LIMIT ?3
