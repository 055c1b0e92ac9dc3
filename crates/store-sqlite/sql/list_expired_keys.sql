-- The longest expired first, those that expired together in their order.
SELECT k.workspace, k.kind, k.key
FROM hapax_keys AS k INDEXED BY hapax_keys_by_expiry
    CROSS JOIN hapax_workspaces AS s ON s.id = k.workspace
WHERE k.expires_at <= ?1
ORDER BY k.expires_at, s.name, k.kind, k.key
LIMIT ?2
