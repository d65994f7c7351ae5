-- name: buckets
-- The count and the fingerprint of every bucket that is not empty, from the index alone.
SELECT bucket AS number, count(*) AS count, bit_xor(fingerprint) AS fingerprint
FROM entities GROUP BY bucket ORDER BY bucket

-- name: registry
-- The registry, which is the only entity that is not replicated.
SELECT bucket AS number, fingerprint FROM entities WHERE xid = '/'

-- name: rows
-- The stored digest of every entity and tombstone in a range of buckets, and the time of its last
-- change at its authority, in microseconds since 1970. No content was compared with the digest.
SELECT authority, origin, xid, epoch, 'false' AS deleted, encode(digest, 'hex') AS digest, bucket,
    (extract(epoch FROM modifiedat) * 1000000)::bigint AS changedat, 'true' AS intact
FROM entities WHERE bucket >= $1 AND bucket < $2 AND kind <> 'registry'
UNION ALL
SELECT authority, origin, xid, epoch, 'true', encode(digest, 'hex'), bucket,
    (extract(epoch FROM deletedat) * 1000000)::bigint, 'true'
FROM tombstones WHERE bucket >= $1 AND bucket < $2

-- name: signed_rows
-- The same with their signatures and the keys that these are of.
SELECT authority, origin, xid, epoch, 'false' AS deleted, encode(digest, 'hex') AS digest, bucket,
    (extract(epoch FROM modifiedat) * 1000000)::bigint AS changedat, 'true' AS intact,
    coalesce(encode(signature, 'hex'), '') AS signature, coalesce(signedby, '') AS signedby
FROM entities WHERE bucket >= $1 AND bucket < $2 AND kind <> 'registry'
UNION ALL
SELECT authority, origin, xid, epoch, 'true', encode(digest, 'hex'), bucket,
    (extract(epoch FROM deletedat) * 1000000)::bigint, 'true',
    coalesce(encode(signature, 'hex'), ''), coalesce(signedby, '')
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

-- name: merged
-- The count and the fingerprint of what the buckets in ranges hold, tombstones too, merged by
-- their first $1 bits: of authorities (null stands for all), within a selection. What is deleted
-- has no labels, so it is in no selection by these.
SELECT held.bucket >> (16 - $1) AS number, count(*) AS count,
    bit_xor(held.fingerprint) AS fingerprint
FROM unnest($2::integer[], $3::integer[]) AS range (start, stop)
CROSS JOIN LATERAL (
    SELECT e.authority, e.origin, e.xid, e.bucket, e.fingerprint FROM entities e
    WHERE e.bucket >= range.start AND e.bucket < range.stop AND e.kind <> 'registry'
    UNION ALL
    SELECT t.authority, t.origin, NULL, t.bucket,
        ('x' || encode(substring(t.digest FOR 8), 'hex'))::bit(64)::bigint
    FROM tombstones t
    WHERE t.bucket >= range.start AND t.bucket < range.stop
) AS held
WHERE ($4::text[] IS NULL OR held.authority = ANY ($4))
    AND is_selected(held.origin, $5, $6)
    AND (cardinality($7::text[]) = 0 OR is_labelled(held.xid, $7))
GROUP BY 1 ORDER BY 1

-- name: merged_by_authority
-- What `merged` counts, for each authority of the whole catalog.
SELECT held.authority, held.bucket >> (16 - $1) AS number, count(*) AS count,
    bit_xor(held.fingerprint) AS fingerprint
FROM (
    SELECT authority, bucket, fingerprint FROM entities WHERE kind <> 'registry'
    UNION ALL
    SELECT authority, bucket, ('x' || encode(substring(digest FOR 8), 'hex'))::bit(64)::bigint
    FROM tombstones
) AS held
GROUP BY 1, 2

-- name: rows_within
-- The stored digest of every entity and tombstone that `merged` counts.
SELECT held.*
FROM unnest($1::integer[], $2::integer[]) AS range (start, stop)
CROSS JOIN LATERAL (
    SELECT e.authority, e.origin, e.xid, e.epoch, 'false' AS deleted,
        encode(e.digest, 'hex') AS digest, e.bucket
    FROM entities e
    WHERE e.bucket >= range.start AND e.bucket < range.stop AND e.kind <> 'registry'
    UNION ALL
    SELECT t.authority, t.origin, t.xid, t.epoch, 'true', encode(t.digest, 'hex'), t.bucket
    FROM tombstones t
    WHERE t.bucket >= range.start AND t.bucket < range.stop
) AS held
WHERE ($3::text[] IS NULL OR held.authority = ANY ($3))
    AND is_selected(held.origin, $4, $5)
    AND (cardinality($6::text[]) = 0
        OR held.deleted = 'false' AND is_labelled(held.xid, $6))

-- name: authorities
-- Up to $1 authorities of entities and tombstones, each found by one look into an index.
WITH RECURSIVE live AS (
    (SELECT authority, 1 AS number FROM entities ORDER BY authority LIMIT 1)
    UNION ALL
    SELECT following.authority, live.number + 1
    FROM live CROSS JOIN LATERAL (
        SELECT authority FROM entities e WHERE e.authority > live.authority
        ORDER BY authority LIMIT 1
    ) AS following
    WHERE live.number < $1
), deleted AS (
    (SELECT authority, 1 AS number FROM tombstones ORDER BY authority LIMIT 1)
    UNION ALL
    SELECT following.authority, deleted.number + 1
    FROM deleted CROSS JOIN LATERAL (
        SELECT authority FROM tombstones t WHERE t.authority > deleted.authority
        ORDER BY authority LIMIT 1
    ) AS following
    WHERE deleted.number < $1
)
SELECT authority FROM live UNION SELECT authority FROM deleted ORDER BY authority LIMIT $1

-- name: page_entities
-- Entities after an xid, with the hash of the stored document of each.
SELECT e.*, sha256(d.body) AS body_sha256
FROM entities e LEFT JOIN documents d USING (xid)
WHERE e.xid > $1 AND e.kind <> 'registry'
ORDER BY e.xid LIMIT $2

-- name: page_tombstones
-- Tombstones after an authority and origin.
SELECT * FROM tombstones WHERE (authority, origin) > ($1, $2)
ORDER BY authority, origin LIMIT $3
