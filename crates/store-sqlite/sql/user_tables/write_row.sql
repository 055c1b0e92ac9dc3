-- Only as it was judged.
UPDATE {table} AS t SET {status} = ?4, {version} = ?5, {updated_at} = ?6
WHERE t.{id} = ?1 AND t.{status} = ?2 AND t.{version} = ?3
