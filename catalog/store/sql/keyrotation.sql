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

-- name: page_signing_keys
-- Some keys that sign deliveries, in the order of their subscriptions and ids.
SELECT subscription || '/' || id AS id, sealed FROM signing_keys
WHERE (subscription, id) > (split_part($1, '/', 1), split_part($1, '/', 2))
ORDER BY subscription, signing_keys.id LIMIT $2

-- name: replace_signing_key
-- Replace the encrypted form of a key that signs deliveries, unless it has changed.
UPDATE signing_keys SET sealed = $3
WHERE subscription = split_part($1, '/', 1) AND id = split_part($1, '/', 2) AND sealed = $2
RETURNING id

-- name: page_authority_keys
-- Some keys by which this authority signs, in the order of their numbers as text.
SELECT number::text AS id, sealed FROM authority_keys
WHERE sealed IS NOT NULL AND number::text COLLATE "C" > $1
ORDER BY number::text COLLATE "C" LIMIT $2

-- name: replace_authority_key
-- Replace the encrypted form of a key by which this authority signs, unless it has changed.
UPDATE authority_keys SET sealed = $3 WHERE number::text = $1 AND sealed = $2
RETURNING number

-- name: page_links
-- Some credentials of links, in the order of the links' ids.
SELECT id, sealed FROM links WHERE sealed IS NOT NULL AND id > $1 ORDER BY id LIMIT $2

-- name: replace_link
-- Replace the encrypted form of a link's credential, unless it has changed.
UPDATE links SET sealed = $3 WHERE id = $1 AND sealed = $2
RETURNING id

-- name: page_handovers
-- Some credentials that the other sides of handovers are shown, in the order of the handovers.
SELECT id, sealed FROM handovers WHERE sealed IS NOT NULL AND id > $1 ORDER BY id LIMIT $2

-- name: replace_handover
-- Replace the encrypted form of a credential of a handover, unless it has changed.
UPDATE handovers SET sealed = $3 WHERE id = $1 AND sealed = $2
RETURNING id

-- name: page_recovery_sources
-- Some credentials that the sources of a recovery are shown, in the order of their URLs.
SELECT url AS id, sealed FROM recovery_sources
WHERE sealed IS NOT NULL AND url > $1 ORDER BY url LIMIT $2

-- name: replace_recovery_source
-- Replace the encrypted form of a credential of a source, unless it has changed.
UPDATE recovery_sources SET sealed = $3 WHERE url = $1 AND sealed = $2
RETURNING url
