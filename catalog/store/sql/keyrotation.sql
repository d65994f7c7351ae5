-- name: take_keys
-- Wait until no open transaction has encrypted a secret with an older key.
SELECT pg_advisory_xact_lock(hashtextextended('concord encryption keys', 0))

-- name: page_sink_credentials
-- Some credentials of sinks in the order of their subscriptions.
SELECT subscription AS id, sealed FROM sink_credentials WHERE subscription > $1
ORDER BY subscription LIMIT $2

-- name: replace_sink_credential
-- Replace the encrypted form of a credential, which stays the same, unless it has changed.
UPDATE sink_credentials SET sealed = $3 WHERE subscription = $1 AND sealed = $2
RETURNING subscription
