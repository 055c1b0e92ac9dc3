-- Open runs of a workspace, up to ?2 of them, from the index of open runs alone.
SELECT count(*) FROM (SELECT 1 FROM hapax_runs WHERE workspace = ?1 AND closed_at IS NULL LIMIT ?2)
