-- name: share_keys
-- Keep a rotation from dropping keys until this transaction ends.
SELECT pg_advisory_xact_lock_shared(hashtextextended('concord encryption keys', 0))
