-- COMPLETED is the usual end, so nearly every row that is walked over fits.
SELECT id FROM hapax_runs
WHERE workspace = ?1 AND id < ?2 AND (?3 IS NULL OR workflow = ?3) AND status = ?5
ORDER BY id DESC
LIMIT ?4
