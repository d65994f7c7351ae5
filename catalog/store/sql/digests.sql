-- name: buckets
-- The count and the fingerprint of every bucket that is not empty, from the index alone.
SELECT bucket, count(*) AS count, bit_xor(fingerprint) AS fingerprint
FROM entities GROUP BY bucket ORDER BY bucket

-- name: registry
-- The registry, which is the only entity that is not replicated.
SELECT bucket, fingerprint FROM entities WHERE xid = '/'

-- name: rows
-- The stored digest of every entity and tombstone in a range of buckets.
SELECT authority, origin, xid, epoch, 'false' AS deleted, encode(digest, 'hex') AS digest, bucket
FROM entities WHERE bucket >= $1 AND bucket < $2 AND kind <> 'registry'
UNION ALL
SELECT authority, origin, xid, epoch, 'true', encode(digest, 'hex'), bucket
FROM tombstones WHERE bucket >= $1 AND bucket < $2

-- name: entities
-- Every entity in a range of buckets, with the hash of its stored document.
SELECT e.*, sha256(d.body) AS body_sha256
FROM entities e LEFT JOIN documents d USING (xid)
WHERE e.bucket >= $1 AND e.bucket < $2 AND e.kind <> 'registry'

-- name: tombstones
-- Every tombstone in a range of buckets.
SELECT * FROM tombstones WHERE bucket >= $1 AND bucket < $2

-- name: count
-- The number of entities without the registry.
SELECT count(*) FROM entities WHERE kind <> 'registry'
