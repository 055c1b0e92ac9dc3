SELECT run FROM open_subjects WHERE workspace = $1 AND workflow = $2 AND subject = $3
