-- name: load
-- The trusted keys of some authorities, revoked ones too; null stands for all.
SELECT * FROM trusted_keys WHERE $1::text[] IS NULL OR authority = ANY ($1)
ORDER BY authority, number, publickey

-- name: add
-- Trust a key of an authority; one that is trusted already, or revoked, stays as it is.
INSERT INTO trusted_keys (authority, number, publickey, trustedat, reason)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING

-- name: revoke
-- Trust a key no more.
UPDATE trusted_keys SET revokedat = coalesce(revokedat, $4)
WHERE authority = $1 AND number = $2 AND publickey = $3

-- name: remove
-- Forget the keys of an authority: anything is taken of it again.
DELETE FROM trusted_keys WHERE authority = $1

-- name: histories
-- The histories of the keys of some authorities; null stands for all.
SELECT authority, history FROM key_histories
WHERE $1::text[] IS NULL OR authority = ANY ($1)
ORDER BY authority LIMIT $2

-- name: save_history
-- Keep the history of the keys of an authority.
INSERT INTO key_histories (authority, history) VALUES ($1, $2::json)
ON CONFLICT (authority) DO UPDATE SET history = excluded.history

-- name: lock_histories
-- Let one transaction at a time judge histories.
SELECT pg_advisory_xact_lock(hashtextextended('key histories', 0))

-- name: count_histories
-- The number of authorities whose keys are known.
SELECT count(*) FROM key_histories
