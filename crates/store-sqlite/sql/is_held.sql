-- Does an operation hold the entity ?2 of the kind ?1, in whatever workspace?
SELECT 1
FROM hapax_operations AS o INDEXED BY hapax_operations_holding
WHERE o.kind = ?1 AND o.entity = ?2 AND o.claim_into IS NOT NULL AND (o.status = 0 OR o.status = 5)
LIMIT 1
