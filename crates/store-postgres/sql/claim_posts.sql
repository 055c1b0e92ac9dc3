-- For each target the longest due, as many as there is room for; those that others are at are passed over. Answers with them,
-- each with the instant it was due at, and for each target (without a workspace) with the instant the next one will be due at, as it
-- was before: of those that are not claimed here.
WITH served AS MATERIALIZED (
    SELECT * FROM unnest($2::int4[], $3::text[], $4::int8[]) AS u (n, target, room) LIMIT $1::int8
), due AS MATERIALIZED (
    SELECT s.n, p.workspace, p.id, p.at
    FROM served AS s
        CROSS JOIN LATERAL (
            SELECT workspace, id, at
            FROM posts
            WHERE target = s.target AND status < 2 AND at <= $5
            ORDER BY at, id
            LIMIT s.room
            FOR UPDATE SKIP LOCKED
        ) AS p
), claimed AS (
    UPDATE posts AS p
    SET status = 1, attempts = p.attempts + 1, owner = $6, at = $7
    FROM (SELECT * FROM due LIMIT $8::int8) AS d
    WHERE p.workspace = d.workspace AND p.id = d.id
    RETURNING d.n, d.at AS due_at, p.workspace, p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner,
        p.failure, p.payload
)
SELECT c.n, c.due_at, (SELECT w.name FROM workspaces AS w WHERE w.id = c.workspace), c.id, c.run, c.target, c.created_at,
    c.attempts, c.status, c.at, c.owner, c.failure, c.payload
FROM claimed AS c
UNION ALL
SELECT s.n, p.at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM served AS s
    CROSS JOIN LATERAL (
        SELECT at
        FROM posts
        WHERE target = s.target AND status < 2 AND ((workspace, id) IN (SELECT d.workspace, d.id FROM due AS d)) IS NOT TRUE
        ORDER BY at
        LIMIT 1
    ) AS p
