-- name: create
-- Add a link, unless there is one of that id.
INSERT INTO links (id, definition) VALUES ($1, $2::jsonb)
ON CONFLICT DO NOTHING
RETURNING *, 0 AS conflicts

-- name: replace
-- Give a link another definition; where it leads elsewhere now, it begins from nothing.
UPDATE links SET
    definition = $2::jsonb,
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    instance = CASE WHEN $3 THEN NULL ELSE instance END,
    authority = CASE WHEN $3 THEN NULL ELSE authority END,
    base = CASE WHEN $3 THEN NULL ELSE base END,
    cursor = CASE WHEN $3 THEN NULL ELSE cursor END,
    currentat = CASE WHEN $3 THEN NULL ELSE currentat END,
    subscription = NULL,
    state = CASE WHEN $3 OR cursor IS NULL THEN 'new' ELSE 'behind' END,
    failures = 0,
    error = NULL
WHERE id = $1
RETURNING *, 0 AS conflicts

-- name: delete
-- Remove a link; what it brought stays.
DELETE FROM links WHERE id = $1 RETURNING *, 0 AS conflicts

-- name: get
-- One link with the number of its conflicts.
SELECT l.*, (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts
FROM links l WHERE l.id = $1

-- name: page
-- Links in the order of their ids, each with the number of its conflicts.
SELECT l.*, (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts
FROM links l WHERE l.id > $1 ORDER BY l.id LIMIT $2

-- name: revisions
-- Which links are to be run.
SELECT id, revision FROM links

-- name: meet
-- Remember who the source is; a cursor into the log of another instance is worth nothing.
UPDATE links SET
    cursor = CASE WHEN instance = $3 THEN cursor END,
    instance = $3,
    authority = $4,
    base = $5
WHERE id = $1 AND revision = $2
RETURNING cursor

-- name: following
-- The links whose sources are of an authority, as far as they were met.
SELECT id FROM links WHERE authority = $1 ORDER BY id

-- name: authorities_at
-- Whose URLs begin with a base: who is followed there, or else the one source that says so.
SELECT authority FROM links WHERE definition ->> 'source' = $1 AND authority IS NOT NULL
UNION
SELECT min(authority) FROM links WHERE base = $1
    AND NOT EXISTS (SELECT FROM links WHERE definition ->> 'source' = $1 OR authority = $1)
HAVING count(DISTINCT authority) = 1

-- name: forget_cursor
-- The source can't go on from the cursor: everything has to be read again.
UPDATE links SET cursor = NULL WHERE id = $1 AND revision = $2

-- name: save_subscription
-- The subscription that wakes the link, at its source.
UPDATE links SET subscription = $3 WHERE id = $1 AND revision = $2

-- name: save_progress
-- How far a link has come, in the transaction that wrote what it brought.
UPDATE links SET
    cursor = coalesce($3, cursor),
    applied = applied + $4,
    state = CASE WHEN state = 'current' THEN 'behind' ELSE state END,
    appliedat = CASE WHEN $4 > 0 THEN $5 ELSE appliedat END
WHERE id = $1 AND revision = $2
RETURNING id

-- name: save_state
-- How a link fares.
UPDATE links SET
    state = $3,
    failures = $4,
    error = $5,
    currentat = coalesce($6, currentat)
WHERE id = $1 AND revision = $2

-- name: remember
-- What an operator should know happened to a link; the last twenty are kept.
UPDATE links SET
    history = jsonb_path_query_array(
        jsonb_build_array(jsonb_build_object('at', $3::text, 'event', $4::text, 'detail', $5::text))
        || history, '$[0 to 19]')
WHERE id = $1 AND revision = $2

-- name: add_conflicts
-- What could not be applied; a source that sends nonsense can't fill the disk with it.
INSERT INTO conflicts (link, authority, origin, xid, epoch, verdict, detail, at)
SELECT DISTINCT ON (c.authority, c.origin) $1, c.*, $8::timestamptz
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
    AS c (authority, origin, xid, epoch, verdict, detail)
WHERE (SELECT count(*) FROM conflicts WHERE link = $1) < $9
ON CONFLICT (link, authority, origin) DO UPDATE SET
    xid = excluded.xid, epoch = excluded.epoch, verdict = excluded.verdict,
    detail = excluded.detail, at = excluded.at
WHERE (conflicts.epoch, conflicts.verdict, conflicts.detail)
    IS DISTINCT FROM (excluded.epoch, excluded.verdict, excluded.detail)

-- name: settle_conflicts
-- These origins are in order now, whichever link brought them.
DELETE FROM conflicts c USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE c.authority = o.authority AND c.origin = o.origin

-- name: conflicts
-- One page of what a link could not apply, in the order of origins.
SELECT * FROM conflicts WHERE link = $1 AND (authority, origin) > ($2, $3)
ORDER BY authority, origin LIMIT $4

-- name: announce
-- Tell the process that runs the links: all of them are to be looked at, or one is to be woken.
SELECT pg_notify('links', $1)
