-- Ids of rows in the status ?1, last changed before ?2, that no operation of the workspace ?3 on the kind ?4 holds. Walks over the table unless the user
-- has an index on the status.
SELECT t.{id}
FROM {table} AS t
WHERE t.{status} = ?1 AND t.{id} IS NOT NULL AND typeof(t.{version}) = 'integer'
    AND CASE typeof(t.{updated_at})
        WHEN 'integer' THEN t.{updated_at}
        ELSE coalesce(CAST(round(unixepoch(t.{updated_at}, 'subsec') * 1000) AS INTEGER), 0)
    END < ?2
    AND NOT EXISTS (
        SELECT 1 FROM hapax_operations AS o INDEXED BY hapax_operations_holding
        WHERE o.workspace = ?3 AND o.kind = ?4 AND o.entity = CAST(t.{id} AS TEXT) AND o.claim_into IS NOT NULL
            AND (o.status = 0 OR o.status = 5)
    )
ORDER BY t.{id}
LIMIT ?5
