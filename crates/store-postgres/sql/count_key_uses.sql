UPDATE keys SET replays = replays + $4, conflicts = conflicts + $5 WHERE workspace = $1 AND kind = $2 AND key = $3
