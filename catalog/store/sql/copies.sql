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

-- name: load_held
-- The entities at the xids of incoming copies, ignoring the case of ids, or of their origins.
SELECT e.* FROM unnest($1::text[], $2::text[]) AS wanted (collection, id)
JOIN entities e ON e.collection = wanted.collection AND lower(e.id) COLLATE "C" = wanted.id
UNION ALL
SELECT e.* FROM unnest($3::text[], $4::text[]) AS wanted (authority, origin)
JOIN entities e ON e.authority = wanted.authority AND e.origin = wanted.origin

-- name: drop
-- Delete the entities below a deleted one; their tombstones come in the feed.
DELETE FROM entities WHERE xid = ANY ($1::text[])

-- name: rehash_documents
-- The hashes of the stored documents of these entities.
SELECT xid, sha256(body) AS sha256 FROM documents WHERE xid = ANY ($1::text[])
