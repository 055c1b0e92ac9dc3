-- Everything that can change but the token, which marks writes under a lease only.
UPDATE hapax_runs
SET version = ?3, changed_at = ?4, stalls = ?5, fence = ?6, status = ?7, wake_at = ?8, lease_owner = ?9, arrivals = ?10,
    started_at = ?11, generation = ?12, asked = ?13, closed_at = ?14
WHERE workspace = ?1 AND id = ?2
