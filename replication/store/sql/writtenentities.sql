-- name: at_places
-- The entities that a link has written in groups or resources, each with whether it is still here.
SELECT w.*, EXISTS (
        SELECT FROM entities e WHERE e.authority = w.authority AND e.origin = w.origin
    ) AS is_here
FROM written_entities w WHERE w.link = $1 AND w.place = ANY ($2::text[])

-- name: below
-- The entities that a link has written below a group, each with whether it is still here.
SELECT w.*, EXISTS (
        SELECT FROM entities e WHERE e.authority = w.authority AND e.origin = w.origin
    ) AS is_here
FROM written_entities w
WHERE w.link = $1 AND w.place > $2 || '/' AND w.place < $2 || '0'

-- name: page
-- The entities that a link has written, after an origin, each with whether it is still here.
SELECT w.*, EXISTS (
        SELECT FROM entities e WHERE e.authority = w.authority AND e.origin = w.origin
    ) AS is_here
FROM written_entities w
WHERE w.link = $1 AND (w.authority, w.origin) > ($2, $3)
ORDER BY w.authority, w.origin LIMIT $4

-- name: save
-- Store entities that a link writes.
INSERT INTO written_entities
    (link, authority, origin, place, xid, target, path, digest, tag, is_adopted)
SELECT $1, w.* FROM unnest(
    $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[],
    $9::text[], $10::boolean[]) AS w
ON CONFLICT (link, authority, origin) DO UPDATE SET
    place = excluded.place, xid = excluded.xid, target = excluded.target, path = excluded.path,
    digest = excluded.digest, tag = excluded.tag, is_adopted = excluded.is_adopted

-- name: forget
-- Forget entities that a link has written, by origin.
DELETE FROM written_entities w USING unnest($2::text[], $3::text[]) AS o (authority, origin)
WHERE w.link = $1 AND w.authority = o.authority AND w.origin = o.origin

-- name: forget_elsewhere
-- Forget what a link has written to other servers.
DELETE FROM written_entities WHERE link = $1 AND target <> $2

-- name: count
-- The number of entities that a link has brought to its server.
SELECT count(*) FROM written_entities WHERE link = $1 AND NOT is_adopted
