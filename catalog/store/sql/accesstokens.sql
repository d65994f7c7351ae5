-- name: add
-- Keep the digest of a token.
INSERT INTO access_tokens (id, digest, name, grants, createdat, expiresat)
VALUES ($1, $2, $3, $4::json, $5, $6)

-- name: find
-- The token with a digest.
SELECT * FROM access_tokens WHERE digest = $1

-- name: find_by_id
-- The token with an id.
SELECT * FROM access_tokens WHERE id = $1

-- name: note_use
-- Note that a token was used, unless that was noted since a time.
UPDATE access_tokens SET usedat = $2 WHERE id = $1 AND (usedat IS NULL OR usedat < $3)

-- name: page
-- All tokens, the newest first.
SELECT * FROM access_tokens ORDER BY createdat DESC, id LIMIT $1

-- name: remove
-- Forget a token.
DELETE FROM access_tokens WHERE id = $1 RETURNING *

-- name: count
-- How many tokens there are, and how many of them are valid at a time and give any role.
SELECT count(*) AS kept,
    count(*) FILTER (
        WHERE (expiresat IS NULL OR expiresat > $1)
            AND (grants::text <> '[]' OR EXISTS (
                SELECT FROM access_rules r WHERE r.who = 'token=' || t.id))
    ) AS usable
FROM access_tokens t

-- name: suspend_subscriptions
-- Suspend the subscriptions of one caller for a reason, and tell the processes that deliver.
WITH suspended AS (
    UPDATE subscriptions SET
        state = 'suspended', reason = $2, pausereason = NULL,
        revision = nextval('subscriptions_revision')
    WHERE id IN (
        SELECT id FROM subscriptions
        WHERE createdby = $1 AND state IN ('pending', 'active', 'paused')
        ORDER BY id FOR NO KEY UPDATE
    )
    RETURNING id
)
SELECT pg_notify('subscriptions', id) FROM suspended
