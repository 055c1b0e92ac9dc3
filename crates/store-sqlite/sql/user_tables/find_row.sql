-- The row with an id. An instant that cannot be read counts as long ago.
SELECT t.{id}, t.{status}, t.{version}, t.{updated_at}, CASE typeof(t.{updated_at})
        WHEN 'integer' THEN t.{updated_at}
        ELSE coalesce(CAST(round(unixepoch(t.{updated_at}, 'subsec') * 1000) AS INTEGER), 0)
    END{data}
FROM {table} AS t
WHERE t.{id} = ?1
