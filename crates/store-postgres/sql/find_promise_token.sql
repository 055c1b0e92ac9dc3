SELECT token FROM promises WHERE workspace = $1 AND id = $2
