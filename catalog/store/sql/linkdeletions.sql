-- name: read
-- The entities that a link has deleted, and how many an operator has allowed to its revision.
SELECT deleted, CASE WHEN revision = $2 THEN allowed ELSE 0 END AS allowed
FROM link_deletions WHERE link = $1

-- name: add
-- Count further deletions with the earlier ones.
INSERT INTO link_deletions (link, since, deleted, revision) VALUES ($1, now(), $3, $2)
ON CONFLICT (link) DO UPDATE SET deleted = link_deletions.deleted + $3

-- name: forget
-- Forget the deletions of links that have caught up, once an operator allowed them, or they are
-- older than $3.
DELETE FROM link_deletions d USING unnest($1::text[], $2::bigint[]) AS l (id, revision)
WHERE d.link = l.id
    AND (d.allowed > 0 AND d.revision = l.revision OR d.since < now() - $3::interval)

-- name: ask
-- Store what a link waits to be allowed to delete.
UPDATE links SET state = 'braked', error = $4,
    brake = jsonb_build_object('deletions', $3::bigint, 'of', $5::bigint)
WHERE id = $1 AND revision = $2
RETURNING id

-- name: ask_more
-- Raise the number that a link still waits to be allowed.
UPDATE links SET error = $4,
    brake = jsonb_build_object('deletions', $3::bigint, 'of', $5::bigint)
WHERE id = $1 AND revision = $2 AND brake IS NOT NULL

-- name: allow
-- Let the present revision of a link delete as many as it waits to be allowed, and wait no more.
WITH allowed AS (
    UPDATE links SET brake = NULL, error = NULL,
        state = CASE WHEN cursor IS NULL THEN 'new' ELSE 'behind' END
    WHERE id = $1 AND revision = $2 AND brake IS NOT NULL
    RETURNING id
)
INSERT INTO link_deletions (link, since, deleted, allowed, revision)
SELECT id, now(), 0, $3::bigint, $2 FROM allowed
ON CONFLICT (link) DO UPDATE SET allowed = $3::bigint, revision = $2

-- name: held
-- The number of entities here that a link may bring: those of authorities or, of all, those that
-- neither this node nor the source of another link speaks for, within a selection.
SELECT count(*) FROM entities e
WHERE e.kind <> 'registry'
    AND CASE WHEN $1::text[] IS NOT NULL THEN e.authority = ANY ($1)
        ELSE e.authority <> $2 AND NOT EXISTS (
            SELECT FROM links l WHERE l.authority = e.authority AND l.id <> $3) END
    AND is_selected(e.origin, $4, $5)
