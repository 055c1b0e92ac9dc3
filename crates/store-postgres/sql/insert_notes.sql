-- In their order, which that of their places follows.
INSERT INTO notes (workspace, run, generation, step, at, fence, owner, actor, role, body)
SELECT workspace, run, generation, step, at, fence, owner, actor, role, body
FROM unnest($1::int4[], $2::uuid[], $3::int4[], $4::text[], $5::int8[], $6::int8[], $7::uuid[], $8::text[], $9::int2[],
    $10::text[]) WITH ORDINALITY
    AS u (workspace, run, generation, step, at, fence, owner, actor, role, body, n)
ORDER BY n
