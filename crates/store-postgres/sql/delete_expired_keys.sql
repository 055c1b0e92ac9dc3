-- The longest expired first, then in the order of keys. One that was given to a new run meanwhile stays.
DELETE FROM keys AS k
USING (
    SELECT e.workspace, e.kind, e.key
    FROM keys AS e
        JOIN workspaces AS s ON s.id = e.workspace
    WHERE e.expires_at <= $1
    ORDER BY e.expires_at, s.name, e.kind, e.key
    LIMIT $2
) AS dead
WHERE k.workspace = dead.workspace AND k.kind = dead.kind AND k.key = dead.key AND k.expires_at <= $1
