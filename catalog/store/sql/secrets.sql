-- name: share_keys
-- Keep a rotation from dropping keys until this transaction ends.
SELECT pg_advisory_xact_lock_shared(hashtextextended('concord encryption keys', 0))

-- name: take_keys
-- Wait until no open transaction has encrypted a secret with an older key.
SELECT pg_advisory_xact_lock(hashtextextended('concord encryption keys', 0))

-- name: page
-- Some secrets of one table in the order of their ids; the other tables are not read.
(
    SELECT subscription AS id, sealed FROM sink_credentials
    WHERE $1 = 'sink_credentials' AND subscription > $2 ORDER BY subscription LIMIT $3
) UNION ALL (
    SELECT subscription || '/' || id, sealed FROM signing_keys
    WHERE $1 = 'signing_keys'
      AND (subscription, id) > (split_part($2, '/', 1), split_part($2, '/', 2))
    ORDER BY subscription, id LIMIT $3
) UNION ALL (
    SELECT number::text, sealed FROM authority_keys
    WHERE $1 = 'authority_keys' AND sealed IS NOT NULL AND number::text COLLATE "C" > $2
    ORDER BY number::text COLLATE "C" LIMIT $3
) UNION ALL (
    SELECT id, sealed FROM links
    WHERE $1 = 'links' AND sealed IS NOT NULL AND id > $2 ORDER BY id LIMIT $3
) UNION ALL (
    SELECT id, sealed FROM handovers
    WHERE $1 = 'handovers' AND sealed IS NOT NULL AND id > $2 ORDER BY id LIMIT $3
) UNION ALL (
    SELECT url, sealed FROM recovery_sources
    WHERE $1 = 'recovery_sources' AND sealed IS NOT NULL AND url > $2 ORDER BY url LIMIT $3
)

-- name: replace
-- Replace the encrypted form of a secret of a table, unless the secret has changed.
WITH sink AS (
    UPDATE sink_credentials SET sealed = $4
    WHERE $1 = 'sink_credentials' AND subscription = $2 AND sealed = $3 RETURNING 1
), delivery AS (
    UPDATE signing_keys SET sealed = $4
    WHERE $1 = 'signing_keys' AND subscription = split_part($2, '/', 1)
      AND id = split_part($2, '/', 2) AND sealed = $3
    RETURNING 1
), authority AS (
    UPDATE authority_keys SET sealed = $4
    WHERE $1 = 'authority_keys' AND number::text = $2 AND sealed = $3 RETURNING 1
), link AS (
    UPDATE links SET sealed = $4 WHERE $1 = 'links' AND id = $2 AND sealed = $3 RETURNING 1
), handover AS (
    UPDATE handovers SET sealed = $4
    WHERE $1 = 'handovers' AND id = $2 AND sealed = $3 RETURNING 1
), source AS (
    UPDATE recovery_sources SET sealed = $4
    WHERE $1 = 'recovery_sources' AND url = $2 AND sealed = $3 RETURNING 1
)
SELECT 1 FROM sink UNION ALL SELECT 1 FROM delivery UNION ALL SELECT 1 FROM authority
UNION ALL SELECT 1 FROM link UNION ALL SELECT 1 FROM handover UNION ALL SELECT 1 FROM source
