-- In the order of the ids; $1 is the status or NULL.
SELECT t.{id}::text, t.{status}::text, t.{version}::int8, {millis}, (SELECT to_jsonb(d)::text FROM (SELECT {data}) AS d)
FROM {table} AS t
WHERE $1::text IS NULL OR t.{status}::text = $1::text
ORDER BY t.{id}
LIMIT $2::int8
