SELECT w.name, w.id
FROM (SELECT * FROM unnest($2::text[]) AS u (name) LIMIT $1::int8) AS i
    JOIN workflows AS w ON w.name = i.name
