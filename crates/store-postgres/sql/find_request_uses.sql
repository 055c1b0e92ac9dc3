SELECT replays, conflicts FROM requests WHERE workspace = $1 AND caller = $2 AND key = $3
