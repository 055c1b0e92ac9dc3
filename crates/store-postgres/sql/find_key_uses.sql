SELECT replays, conflicts FROM keys WHERE workspace = $1 AND kind = $2 AND key = $3
