DELETE FROM early_settlements WHERE workspace = $1 AND key = $2
