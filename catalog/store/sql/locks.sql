-- name: lock_and_load
-- Lock what an interaction touches, then read it; the patience has to be known by then.
SELECT (entity).*, is_referred, has_lived, signing_key
FROM set_config('lock_timeout', $7, true) AS patience
CROSS JOIN LATERAL lock_and_load($1, $2, $3, $4, $5, CASE WHEN patience <> '' THEN $6::bigint END,
    $8)

-- name: is_awaited
-- Whether another transaction waits for an advisory lock that this one holds.
SELECT EXISTS (
    SELECT FROM pg_locks w
    JOIN pg_locks h USING (locktype, database, classid, objid, objsubid)
    WHERE w.locktype = 'advisory' AND NOT w.granted AND h.granted AND h.pid = pg_backend_pid()
)
