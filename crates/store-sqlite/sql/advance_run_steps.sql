-- The hottest statement: steps were recorded, the run is still leased. Touches no index.
UPDATE hapax_runs
SET version = ?5, token = ?6, changed_at = ?7, stalls = ?8
WHERE workspace = ?1 AND id = ?2 AND version = ?3 AND fence = ?4 AND lease_owner IS NOT NULL
