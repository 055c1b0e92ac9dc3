UPDATE run_facts SET input = $3 WHERE workspace = $1 AND id = $2
