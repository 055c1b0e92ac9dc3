-- Rows in a transient status that no operation of the workspace holds, and that nobody has in hand just now.
SELECT t.{id}::text, t.{version}::int8
FROM {table} AS t
WHERE t.{status} = $1::text::{status_type} AND t.{updated_at} < {before}
    AND NOT EXISTS (
        SELECT FROM operations AS o
        WHERE o.workspace = $3::int4 AND o.kind = $4::text AND o.entity = t.{id}::text COLLATE "C"
            AND o.claim_into IS NOT NULL AND o.status IN (0, 5))
ORDER BY t.{id}
LIMIT $5::int8
FOR NO KEY UPDATE OF t SKIP LOCKED
