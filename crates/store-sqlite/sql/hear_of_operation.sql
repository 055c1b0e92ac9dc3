-- The holder of a pending operation lives. Of one that a run carries out anybody may say so who follows the run.
UPDATE hapax_operations SET at = ?5
WHERE workspace = ?1 AND id = ?2 AND attempt = ?3 AND (owner = ?4 OR run IS NOT NULL) AND status = 0
