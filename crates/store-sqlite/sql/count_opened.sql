-- Promises that there is more to know about arrive with the write that opens them; a run that parked without having seen so many is due at once.
UPDATE hapax_runs
SET arrivals = arrivals + ?3, wake_at = CASE WHEN arrivals + ?3 > ?4 THEN ?5 ELSE wake_at END
WHERE workspace = ?1 AND id = ?2
RETURNING arrivals
