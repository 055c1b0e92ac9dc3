-- COMPLETED is the usual end, so nearly every row that is walked over fits.
SELECT id FROM hapax_runs
WHERE workspace = ?1 AND id < ?2 AND (?3 IS NULL OR workflow = ?3)
    AND (?6 IS NULL OR workflow_version = ?6) AND status = ?5
ORDER BY id DESC
LIMIT ?4
