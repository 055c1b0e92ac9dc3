UPDATE hapax_runs SET arrivals = ?3, wake_at = ?4 WHERE workspace = ?1 AND id = ?2
