-- name: lock_and_load
-- Lock what an interaction touches, then read it; the patience has to be known by then.
SELECT (entity).*, is_referred, has_lived
FROM set_config('lock_timeout', $7, true) AS patience
CROSS JOIN LATERAL lock_and_load($1, $2, $3, $4, $5, CASE WHEN patience <> '' THEN $6::bigint END)
