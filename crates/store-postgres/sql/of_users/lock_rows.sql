-- In the order of the input, which is that of the ids. Rows of other tables that refer to these are not kept waiting.
SELECT t.{id}::text, t.{status}::text, t.{version}::int8, {millis}, (SELECT to_jsonb(d)::text FROM (SELECT {data}) AS d)
FROM (SELECT * FROM unnest($2::text[]) AS u (id) LIMIT $1::int8) AS i
    JOIN {table} AS t ON t.{id} = i.id::{id_type} AND t.{id}::text = i.id
FOR NO KEY UPDATE OF t
