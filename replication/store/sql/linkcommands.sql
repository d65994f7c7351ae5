-- name: pause
-- Let nothing run a link, for a reason.
UPDATE links SET
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    state = 'paused',
    paused = $2,
    subscription = NULL,
    failures = 0,
    nextattemptat = NULL,
    error = CASE WHEN question IS NOT NULL THEN error END
WHERE id = $1 AND paused IS NULL

-- name: run
-- Let a link run again: from where it was paused, or at once after a failure.
UPDATE links SET
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    state = CASE WHEN question IS NOT NULL THEN 'asking'
        WHEN cursor IS NULL THEN 'new' ELSE 'behind' END,
    paused = NULL,
    subscription = NULL,
    failures = 0,
    nextattemptat = NULL,
    error = CASE WHEN question IS NOT NULL THEN error END
WHERE id = $1 AND state = ANY ($2::text[])

-- name: announce
-- Tell the process that runs the links that some were changed.
SELECT pg_notify('links', '')
