-- Unless another node was faster.
UPDATE clock_correction SET correction_ms = correction_ms + $1, number = number + 1 WHERE id = 0 AND number = $2
