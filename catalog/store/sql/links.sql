-- name: create
-- Add a link, unless its id is taken. If $4, it gives other names or addresses to what is here already.
INSERT INTO links (id, definition, authority, former)
VALUES ($1, $2::jsonb, $3, CASE WHEN $4 THEN '[]'::jsonb END)
ON CONFLICT DO NOTHING
RETURNING *, 0 AS conflicts

-- name: replace
-- Replace the definition of a link; if $3, the link begins anew, and if $5, it selects other
-- entities. $6 is what it selected before, if what is here is to be reconsidered.
UPDATE links SET
    definition = $2::jsonb,
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    authority = $4,
    instance = CASE WHEN $3 THEN NULL ELSE instance END,
    base = CASE WHEN $3 THEN NULL ELSE base END,
    cursor = CASE WHEN $3 OR $5 THEN NULL ELSE cursor END,
    behind = CASE WHEN NOT $3 THEN behind END,
    former = CASE WHEN $6::jsonb IS NULL THEN former ELSE coalesce(former, '[]') || $6::jsonb END,
    currentat = CASE WHEN $3 THEN NULL ELSE currentat END,
    doubts = doubts OR $3,
    loss = CASE WHEN NOT $3 THEN loss END,
    subscription = NULL,
    state = CASE WHEN paused IS NOT NULL THEN 'paused'
        WHEN $3 OR $5 OR cursor IS NULL THEN 'new' ELSE 'behind' END,
    failures = 0,
    nextattemptat = NULL,
    error = NULL,
    question = NULL,
    comparedat = NULL,
    differing = NULL
WHERE id = $1
RETURNING *, 0 AS conflicts

-- name: restart
-- Let a link compare or, if $5, copy all again, after it dropped the replicas of authorities.
WITH forgotten AS (DELETE FROM conflicts WHERE link = $1)
UPDATE links SET
    revision = nextval(pg_get_serial_sequence('links', 'revision')),
    authority = $2,
    drops = $3,
    ends = $4,
    copiesall = $5,
    doubts = true,
    loss = NULL,
    instance = NULL,
    base = NULL,
    cursor = NULL,
    behind = NULL,
    currentat = NULL,
    subscription = NULL,
    state = CASE WHEN paused IS NULL OR $4 THEN 'new' ELSE 'paused' END,
    paused = CASE WHEN NOT $4 THEN paused END,
    failures = 0,
    nextattemptat = NULL,
    error = NULL,
    question = NULL
WHERE id = $1
RETURNING *, 0 AS conflicts

-- name: has_reconsidered
-- Note that what a link selected before is reconsidered.
UPDATE links SET former = NULL WHERE id = $1 AND revision = $2

-- name: bringing_beside
-- The definitions of the other links that bring entities.
SELECT authority, definition FROM bringing_links WHERE id <> $1 AND authority IS NOT NULL

-- name: has_dropped
-- Note that the replicas were dropped.
UPDATE links SET drops = '{}' WHERE id = $1 AND revision = $2

-- name: delete
-- Delete a link; the entities that it brought stay.
DELETE FROM links WHERE id = $1 RETURNING *, 0 AS conflicts

-- name: get
-- One link with the number of its conflicts.
SELECT l.*, (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts
FROM links l WHERE l.id = $1

-- name: page
-- Links in the order of their ids, each with the number of its conflicts.
SELECT l.*, (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts
FROM links l WHERE l.id > $1 ORDER BY l.id LIMIT $2

-- name: accepting
-- The link that accepts the pushes of an authority.
SELECT l.*, 0 AS conflicts FROM links l
WHERE l.definition ->> 'mode' = 'accept' AND l.authority = $1

-- name: pushing_to
-- The earliest other link that pushes to a target.
SELECT id FROM links
WHERE definition ->> 'mode' = 'push' AND instance = $1 AND revision < $2
ORDER BY revision LIMIT 1

-- name: count
-- The number of links.
SELECT count(*) FROM links

-- name: revisions
-- The id and the revision of every link that is not paused.
SELECT id, revision FROM links WHERE paused IS NULL

-- name: meet
-- Store the identity of the source; drop a cursor into the log of another instance, with what an
-- operator allowed that one, and note as $6 the loss that this means.
WITH forgotten AS (
    DELETE FROM link_losses WHERE link = $1
        AND EXISTS (SELECT FROM links WHERE id = $1 AND instance IS DISTINCT FROM $3)
)
UPDATE links SET
    loss = coalesce(loss, $6),
    cursor = CASE WHEN instance = $3 THEN cursor END,
    instance = $3,
    authority = coalesce(authority, $4),
    base = $5
WHERE id = $1 AND revision = $2
RETURNING cursor

-- name: forget_cursor
-- Drop a cursor that the source cannot continue from, so that everything is read again, and note as
-- $4 what the source lost, if it did.
UPDATE links SET cursor = NULL, loss = coalesce(loss, $4), errors = counted_error(errors, $3, 1)
WHERE id = $1 AND revision = $2

-- name: save_subscription
-- Store the id of the subscription at the source that wakes the link.
UPDATE links SET subscription = $3 WHERE id = $1 AND revision = $2

-- name: save_progress
-- Store how far a link has come, in the transaction that writes the entities it brought: of $6
-- copies in $7 bytes, $4 were applied, and $8 changes are still to come. Copies are counted in the
-- minute that began at `minuteat`, and in the one before. Conflicts of the origins $9 and $10 are
-- deleted: the link's and, if it brings, those of all that bring, as what is here settles nothing
-- elsewhere.
WITH settled AS (
    DELETE FROM conflicts c USING unnest($9::text[], $10::text[]) AS o (authority, origin)
    WHERE c.authority = o.authority AND c.origin = o.origin AND (
        c.link = $1 OR EXISTS (SELECT FROM bringing_links b WHERE b.id = $1)
        AND EXISTS (SELECT FROM bringing_links b WHERE b.id = c.link)
    )
)
UPDATE links SET
    cursor = coalesce($3, cursor),
    copiesall = copiesall AND $3 IS NULL,
    applied = applied + $4,
    state = CASE WHEN state NOT IN ('behind', 'current') OR $3 IS NULL THEN state
        WHEN $8 = 0 THEN 'current'
        ELSE 'behind' END,
    appliedat = CASE WHEN $4 > 0 THEN $5 ELSE appliedat END,
    currentat = CASE WHEN $8 = 0 AND $3 IS NOT NULL AND state IN ('behind', 'current') THEN $5
        ELSE currentat END,
    copied = copied + $6,
    bytes = bytes + $7,
    behind = coalesce($8, behind),
    minuteat = CASE WHEN $5 < minuteat + interval '1 minute' THEN minuteat
        WHEN $5 < minuteat + interval '2 minutes' THEN minuteat + interval '1 minute'
        ELSE $5 END,
    minutecopies = $6 + CASE WHEN $5 < minuteat + interval '1 minute' THEN minutecopies ELSE 0 END,
    earliercopies = CASE WHEN $5 < minuteat + interval '1 minute' THEN earliercopies
        WHEN $5 < minuteat + interval '2 minutes' THEN minutecopies
        ELSE 0 END
WHERE id = $1 AND revision = $2
RETURNING id

-- name: save_state
-- Store the state of a link. It counts errors of the class $8, and $10 refusals for their number.
-- One that begins to copy counts from zero, and expects $9 copies. One that is current has caught up
-- with its source, whatever that had lost.
WITH caught_up AS (
    DELETE FROM link_losses WHERE link = $1 AND $3 = 'current'
), followed AS (
    UPDATE allowances SET is_followed = true WHERE link = $1 AND $3 = 'current' AND NOT is_followed
)
UPDATE links SET
    loss = CASE WHEN $3 <> 'current' THEN loss END,
    state = $3,
    failures = $4,
    error = $5,
    currentat = coalesce($6, currentat),
    nextattemptat = $7,
    behind = CASE WHEN $3 = 'current' THEN 0 ELSE behind END,
    copyat = CASE WHEN $3 = 'copying' THEN now() ELSE copyat END,
    copied = CASE WHEN $3 = 'copying' THEN 0 ELSE copied END,
    copyof = CASE WHEN $3 = 'copying' THEN $9 ELSE copyof END,
    errors = counted_error(counted_error(errors, $8, 1), 'too_many', $10)
WHERE id = $1 AND revision = $2

-- name: expect
-- Store how many copies a link that copies expects.
UPDATE links SET copyof = $3 WHERE id = $1 AND revision = $2

-- name: save_comparison
-- Store that the digests of a link and its peer were compared at $3, and the number of origins that
-- differed; return the number before.
WITH before AS (SELECT id, differing FROM links WHERE id = $1 AND revision = $2)
UPDATE links l SET comparedat = $3, differing = $4
FROM before WHERE l.id = before.id
RETURNING before.differing

-- name: remember
-- Add an event to the history of a link, which keeps the last twenty of them, none from before $6.
UPDATE links SET
    history = jsonb_path_query_array(
        jsonb_build_array(jsonb_build_object('at', $3::text, 'event', $4::text, 'detail', $5::text))
        || history, '$[0 to 19] ? (@.at >= $since)', jsonb_build_object('since', $6::text))
WHERE id = $1 AND revision = $2

-- name: announce
-- Tell the process that runs the links that some were changed, or the id of one to wake.
SELECT pg_notify('links', $1)
