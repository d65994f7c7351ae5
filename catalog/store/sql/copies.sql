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
-- The origins of entities of authorities (null stands for all) after an xid, parents first.
SELECT authority, origin FROM entities
WHERE kind <> 'registry' AND ($1::text[] IS NULL OR authority = ANY ($1)) AND xid > $2
ORDER BY xid LIMIT $3

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
SELECT xid, authority FROM entities
WHERE kind = 'group' AND authority <> $1 AND ($2::text[] IS NULL OR authority = ANY ($2))
    AND xid > $3
ORDER BY xid LIMIT $4

-- name: deletions
-- Tombstones of authorities (null stands for all) but one, in the order of their origins.
SELECT authority, origin FROM tombstones
WHERE authority <> $1 AND ($2::text[] IS NULL OR authority = ANY ($2))
    AND (authority, origin) > ($3, $4)
ORDER BY authority, origin LIMIT $5

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
