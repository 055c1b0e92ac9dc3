SELECT t.{id}::text, t.{status}::text, t.{version}::int8, {millis}, (SELECT to_jsonb(d)::text FROM (SELECT {data}) AS d)
FROM {table} AS t
WHERE t.{id} = $1::text::{id_type} AND t.{id}::text = $1::text
