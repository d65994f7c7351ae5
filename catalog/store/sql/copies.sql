-- name: entities
-- Every entity except the registry, parents first.
SELECT * FROM entities
WHERE kind <> 'registry' AND ($1::text[] IS NULL OR authority = ANY ($1))
ORDER BY xid

-- name: tombstones
-- Every tombstone.
SELECT * FROM tombstones
WHERE $1::text[] IS NULL OR authority = ANY ($1)
ORDER BY authority, origin

-- name: page_entities
-- The origins of entities of authorities (null stands for all) after one, parents first.
SELECT authority, origin FROM entities
WHERE kind <> 'registry' AND ($1::text[] IS NULL OR authority = ANY ($1))
    AND (authority, origin) > ($2, $3)
ORDER BY authority, origin LIMIT $4

-- name: page_tombstones
-- The origins of deleted entities of authorities (null stands for all) after an origin.
SELECT authority, origin FROM tombstones
WHERE ($1::text[] IS NULL OR authority = ANY ($1)) AND (authority, origin) > ($2, $3)
ORDER BY authority, origin LIMIT $4

-- name: load_held
-- The entities at the xids of incoming copies, ignoring the case of ids, or of their origins.
SELECT e.* FROM unnest($1::text[], $2::text[]) AS wanted (collection, id)
JOIN entities e ON e.collection = wanted.collection AND lower(e.id) COLLATE "C" = wanted.id
UNION ALL
SELECT e.* FROM unnest($3::text[], $4::text[]) AS wanted (authority, origin)
JOIN entities e ON e.authority = wanted.authority AND e.origin = wanted.origin

-- name: groups
-- Groups of authorities (null stands for all) but one, in the order of their xids.
SELECT xid, authority, origin FROM entities
WHERE kind = 'group' AND authority <> $1 AND ($2::text[] IS NULL OR authority = ANY ($2))
    AND xid > $3
ORDER BY xid LIMIT $4

-- name: deletions
-- Tombstones of authorities (null stands for all) but one, in the order of their origins.
SELECT authority, origin FROM tombstones
WHERE authority <> $1 AND ($2::text[] IS NULL OR authority = ANY ($2))
    AND (authority, origin) > ($3, $4)
ORDER BY authority, origin LIMIT $5

-- name: replicas
-- Entities of authorities (null stands for all) but one after an origin, parents first.
SELECT xid, authority, origin FROM entities
WHERE kind <> 'registry' AND authority <> $1 AND ($2::text[] IS NULL OR authority = ANY ($2))
    AND (authority, origin) > ($3, $4)
ORDER BY authority, origin LIMIT $5

-- name: rename
-- Move a group with everything below it to another xid, with the id $3; '0' follows '/'.
UPDATE entities SET
    xid = $2 || substr(xid, length($1) + 1),
    id = CASE WHEN xid = $1 THEN $3 ELSE id END,
    collection = CASE WHEN xid = $1 THEN collection
        ELSE $2 || substr(collection, length($1) + 1) END,
    listing = CASE WHEN xid = $1 THEN listing ELSE $2 || substr(listing, length($1) + 1) END,
    listing_id = CASE WHEN xid = $1 THEN lower($3) ELSE listing_id END
WHERE xid = $1 OR xid > $1 || '/' AND xid < $1 || '0'

-- name: refer_anew
-- Let cross references of an authority to a group of its own lead to the group's xid here.
WITH reference AS (
    SELECT xid, coalesce(attributes ->> '$xref', attributes ->> 'xref') AS published
    FROM entities
    WHERE kind = 'resource' AND attributes ? 'xref' AND authority = $1
)
UPDATE entities e SET attributes = jsonb_build_object(
        'xref', $3 || substr(r.published, length($2) + 1))
    || CASE WHEN $2 = $3 THEN '{}' ELSE jsonb_build_object('$xref', r.published) END
FROM reference r
WHERE e.xid = r.xid AND starts_with(r.published, $2 || '/')
RETURNING e.*

-- name: forget_deletions
-- Delete the tombstones of these origins.
DELETE FROM tombstones t USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE t.authority = o.authority AND t.origin = o.origin

-- name: drop
-- Delete entities without tombstones.
DELETE FROM entities WHERE xid = ANY ($1::text[])

-- name: rehash_documents
-- The hashes of the stored documents of these entities.
SELECT xid, sha256(body) AS sha256 FROM documents WHERE xid = ANY ($1::text[])

-- name: count_replicas
-- The number of entities of some authorities; null stands for all but the node's own, $2.
SELECT count(*) FROM entities
WHERE CASE WHEN $1::text[] IS NULL THEN authority <> $2 ELSE authority = ANY ($1) END
