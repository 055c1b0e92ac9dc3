UPDATE hapax_runs SET arrivals = ?3 WHERE workspace = ?1 AND id = ?2
