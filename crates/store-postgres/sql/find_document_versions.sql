SELECT i.id, i.version FROM items AS i WHERE i.kind = $1 AND i.id = ANY ($2::text[])
