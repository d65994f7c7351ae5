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

-- name: note_figures
-- Store a point of the present minute and one of the present hour for each link, and drop the
-- points that are older than $1 or $2. A link that is current has no lag, other than one whose
-- source has told nothing for two minutes: it ought to tell every half minute.
WITH present AS (
    SELECT id, applied,
        (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(errors)) AS errors,
        CASE WHEN state = 'current' AND (
                definition ->> 'mode' NOT IN ('accept', 'kafka')
                OR currentat > now() - interval '2 minutes'
            ) THEN 0
            ELSE greatest(0, extract(epoch FROM now() - currentat)) END::real AS lag
    FROM links
), noted AS (
    INSERT INTO link_figures (link, step, at, lag, copies, errors)
    SELECT id, step, date_bin(make_interval(secs => step), now(), timestamptz 'epoch'), lag,
        applied, errors
    FROM present CROSS JOIN (VALUES (60), (3600)) AS steps (step)
    ON CONFLICT (link, step, at) DO UPDATE SET
        lag = greatest(link_figures.lag, excluded.lag),
        copies = excluded.copies, errors = excluded.errors
)
DELETE FROM link_figures f
USING links l CROSS JOIN (VALUES (60, $1::interval), (3600, $2::interval)) AS kept (step, age)
WHERE f.link = l.id AND f.step = kept.step AND f.at < now() - kept.age

-- name: figures
-- The points of a link at a step since a time, oldest first, with what was counted since the point
-- before: nothing is negative, as counters begin anew with a link that is made again by its name.
SELECT at, lag,
    round((greatest(0, copies - lag(copies) OVER before)
        / extract(epoch FROM at - lag(at) OVER before))::numeric, 3)::float8 AS rate,
    greatest(0, errors - lag(errors) OVER before) AS errors
FROM link_figures
WHERE link = $1 AND step = $2 AND at >= $3
WINDOW before AS (ORDER BY at) ORDER BY at

-- name: save
-- Replace the encrypted credential of a link, and what is shown of it.
UPDATE links SET sealed = $2, credential = $3::jsonb WHERE id = $1

-- name: go_on
-- Let a link go on at once from where it is, as another revision.
UPDATE links SET
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    state = CASE WHEN paused IS NOT NULL THEN 'paused'
        WHEN question IS NOT NULL THEN 'asking'
        WHEN cursor IS NULL THEN 'new' ELSE 'behind' END,
    failures = 0,
    nextattemptat = NULL,
    error = CASE WHEN question IS NOT NULL THEN error END
WHERE id = $1
RETURNING id

-- name: leading_to
-- The first link that shows a credential to the catalog at a URL.
SELECT id FROM links
WHERE sealed IS NOT NULL AND $1 IN (definition ->> 'source', definition ->> 'target')
ORDER BY id LIMIT 1
