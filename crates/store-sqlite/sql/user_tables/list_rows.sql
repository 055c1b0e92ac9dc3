-- From the first; ?1 is the status or NULL.
SELECT t.{id}, t.{status}, t.{version}, t.{updated_at}, CASE typeof(t.{updated_at})
        WHEN 'integer' THEN t.{updated_at}
        ELSE coalesce(CAST(round(unixepoch(t.{updated_at}, 'subsec') * 1000) AS INTEGER), 0)
    END{data}
FROM {table} AS t
WHERE t.{id} IS NOT NULL AND (?1 IS NULL OR t.{status} = ?1)
ORDER BY t.{id}
LIMIT ?2
