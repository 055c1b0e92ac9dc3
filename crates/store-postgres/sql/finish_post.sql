-- Only while the attempt is still its owner's.
UPDATE posts
SET status = $5, at = $6, owner = $7, failure = $8
WHERE workspace = $1 AND id = $2 AND status = 1 AND owner = $3 AND attempts = $4
