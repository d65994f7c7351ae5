-- name: add
-- Keep a new session.
INSERT INTO console_sessions (digest, token, createdat, usedat) VALUES ($1, $2, $3, $3)

-- name: find
-- The encrypted token of a session that began, and was used, after two times; the use is noted once a
-- minute.
WITH used AS (
    UPDATE console_sessions SET usedat = $4
    WHERE digest = $1 AND createdat > $2 AND usedat > $3 AND usedat < $4::timestamptz - interval '1 minute'
)
SELECT token FROM console_sessions WHERE digest = $1 AND createdat > $2 AND usedat > $3

-- name: is_open
-- Whether a session that began, and was used, after two times is there; this is no use.
SELECT EXISTS (
    SELECT FROM console_sessions WHERE digest = $1 AND createdat > $2 AND usedat > $3
)

-- name: begin_renewal
-- Note that a request renews the tokens of a session, unless another one has begun since a time.
UPDATE console_sessions SET renewingat = $3
WHERE digest = $1 AND (renewingat IS NULL OR renewingat <= $2)
RETURNING true

-- name: renew
-- Replace the encrypted token of a session.
UPDATE console_sessions SET token = $2, renewingat = NULL WHERE digest = $1

-- name: remove
-- Forget a session.
DELETE FROM console_sessions WHERE digest = $1

-- name: remove_ended
-- Forget the sessions that began, or were used, before two times, and all but the latest ones.
DELETE FROM console_sessions
WHERE createdat <= $1 OR usedat <= $2
    OR digest IN (SELECT digest FROM console_sessions ORDER BY usedat DESC OFFSET $3)
