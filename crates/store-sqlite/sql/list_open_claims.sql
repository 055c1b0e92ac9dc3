-- Claims of one workspace, or of all. Those under way are few.
SELECT DISTINCT o.module, o.workflow, o.claim_into
FROM hapax_operations AS o INDEXED BY hapax_operations_pending
WHERE o.module > '' AND o.status = 0 AND o.claim_into IS NOT NULL
    AND (?2 IS NULL OR o.workspace = ?2)
ORDER BY o.module, o.workflow, o.claim_into
LIMIT ?1
