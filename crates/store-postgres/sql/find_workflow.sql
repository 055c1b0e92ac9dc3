SELECT id FROM workflows WHERE name = $1
