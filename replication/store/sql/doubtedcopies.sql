-- name: doubt
-- The copies of an authority here that are selected, beside those that are left of an earlier
-- beginning of the link. They are overruled if $6. The authority does not have yet what was given
-- to it and is not taken; '0' follows '/'.
WITH link AS (
    UPDATE links SET doubts = doubts AND NOT $6 WHERE id = $1 AND revision = $2 RETURNING id
), held AS (
    SELECT origin, digest FROM entities WHERE authority = $3 AND kind <> 'registry'
    UNION ALL
    SELECT origin, digest FROM tombstones WHERE authority = $3
), doubted AS (
    INSERT INTO doubted_copies
    SELECT link.id, held.origin, held.digest, $6 FROM link, held
    WHERE is_selected(held.origin, $4, $5) AND NOT EXISTS (
        SELECT FROM handovers h
        WHERE h.role = 'give' AND h.state = 'given' AND h.authority = $3
            AND (held.origin = h.xid
                OR held.origin > h.xid || '/' AND held.origin < h.xid || '0'))
    ON CONFLICT DO NOTHING
)
SELECT id FROM link

-- name: clear
-- Forget the copies that a link doubted, but not those that are overruled unless $2.
DELETE FROM doubted_copies WHERE link = $1 AND ($2 OR NOT overruled)

-- name: doubt_only
-- The copies of these origins, with their digests; none of an earlier beginning of the link.
WITH link AS (
    UPDATE links SET doubts = false WHERE id = $1 AND revision = $2 RETURNING id
), doubted AS (
    INSERT INTO doubted_copies
    SELECT link.id, held.origin, held.digest
    FROM link, unnest($3::text[], $4::bytea[]) AS held (origin, digest)
)
SELECT id FROM link

-- name: keep_among
-- Forget the copies that a link doubted but for those of these origins that are overruled.
DELETE FROM doubted_copies WHERE link = $1 AND (origin <> ALL ($2::text[]) OR NOT overruled)

-- name: any_overruled
-- Whether a link doubts any copies that are overruled.
SELECT EXISTS (SELECT FROM doubted_copies WHERE link = $1 AND overruled)

-- name: settle
-- The authority has told of these origins.
DELETE FROM doubted_copies WHERE link = $1 AND origin = ANY ($2::text[])
RETURNING digest, overruled

-- name: left
-- Doubted origins, ancestors first, and the xids of entities that are still as they were.
SELECT d.origin, e.xid, d.overruled
FROM doubted_copies d
LEFT JOIN entities e ON e.authority = $2 AND e.origin = d.origin AND e.digest = d.digest
WHERE d.link = $1 ORDER BY d.origin LIMIT $3::bigint

-- name: forget_deletions
-- The tombstones among doubted copies, where they are still as they were.
DELETE FROM tombstones t USING doubted_copies d
WHERE d.link = $1 AND d.origin = ANY ($3::text[])
    AND t.authority = $2 AND t.origin = d.origin AND t.digest = d.digest
