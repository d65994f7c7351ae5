-- name: save
-- Add a key of a subscription, which may be written in the same transaction.
INSERT INTO signing_keys (subscription, id, scheme, sealed, publickey, createdat)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: load
-- The keys of subscriptions that are in use, the newest first.
SELECT * FROM signing_keys
WHERE subscription = ANY ($1::text[]) AND (endsat IS NULL OR endsat > $2)
ORDER BY createdat DESC, id

-- name: end_all
-- Let the keys of a subscription that are in use end at a time, and drop those that have ended.
WITH dropped AS (DELETE FROM signing_keys WHERE subscription = $1 AND endsat <= $3)
UPDATE signing_keys SET endsat = least(endsat, $2) WHERE subscription = $1 AND
    (endsat IS NULL OR endsat > $3)

-- name: remove
-- Delete one key of a subscription.
DELETE FROM signing_keys WHERE subscription = $1 AND id = $2

-- name: remove_all
-- Delete the keys of a subscription.
DELETE FROM signing_keys WHERE subscription = $1
