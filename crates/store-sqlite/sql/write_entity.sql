-- Only as it was judged.
UPDATE hapax_entities SET status = ?6, version = ?7, updated_at = ?8, data = ?9
WHERE workspace = ?1 AND kind = ?2 AND id = ?3 AND status = ?4 AND version = ?5
