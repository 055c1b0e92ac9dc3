UPDATE clock_correction SET seen_ms = $1 WHERE id = 0 AND number = $2 AND (seen_ms IS NULL OR seen_ms < $1)
