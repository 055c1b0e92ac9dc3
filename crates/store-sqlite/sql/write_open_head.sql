-- A grant, or a run put aside: touches no index but that of due runs and that of runs set aside.
UPDATE hapax_runs
SET version = ?3, changed_at = ?4, stalls = ?5, fence = ?6, status = ?7, wake_at = ?8, lease_owner = ?9, arrivals = ?10,
    started_at = ?11
WHERE workspace = ?1 AND id = ?2
