DELETE FROM open_subjects WHERE workspace = $1 AND workflow = $2 AND subject = $3 AND run = $4
