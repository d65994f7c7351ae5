-- name: share_keys
-- Keep a rotation from dropping keys until this transaction ends.
SELECT pg_advisory_xact_lock_shared(hashtextextended('concord encryption keys', 0))

-- name: take_keys
-- Wait until no open transaction has encrypted a secret with an older key.
SELECT pg_advisory_xact_lock(hashtextextended('concord encryption keys', 0))

-- name: page
-- Some secrets in the order of their tables and ids.
SELECT place, id, sealed FROM (
    SELECT 'sink_credentials' AS place, subscription AS id, sealed FROM sink_credentials
    UNION ALL SELECT 'signing_keys', subscription || '/' || id, sealed FROM signing_keys
    UNION ALL SELECT 'authority_keys', number::text, sealed FROM authority_keys
    UNION ALL SELECT 'links', id, sealed FROM links
    UNION ALL SELECT 'handovers', id, sealed FROM handovers
    UNION ALL SELECT 'recovery_sources', url, sealed FROM recovery_sources
) AS s
WHERE sealed IS NOT NULL AND (place COLLATE "C", id COLLATE "C") > ($1, $2)
ORDER BY place COLLATE "C", id COLLATE "C" LIMIT $3

-- name: replace
-- Replace the encrypted form of a secret of a table, unless the secret has changed.
WITH sink AS (
    UPDATE sink_credentials SET sealed = $4
    WHERE $1 = 'sink_credentials' AND subscription = $2 AND sealed = $3 RETURNING 1
), delivery AS (
    UPDATE signing_keys SET sealed = $4
    WHERE $1 = 'signing_keys' AND subscription || '/' || id = $2 AND sealed = $3 RETURNING 1
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
