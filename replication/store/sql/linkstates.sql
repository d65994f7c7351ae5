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

-- name: confirm
-- Note for links that were current already, at once, when they found nothing new.
UPDATE links l SET currentat = c.at
FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS c (id, revision, at)
WHERE l.id = c.id AND l.revision = c.revision AND l.state = 'current'
