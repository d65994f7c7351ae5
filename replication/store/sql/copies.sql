-- name: entities
-- Every entity except the registry, parents first.
SELECT * FROM entities
WHERE kind <> 'registry' AND ($1::text[] IS NULL OR authority = ANY ($1))
ORDER BY xid

-- name: entities_within
-- Every entity of authorities at origins $2, or below $3, parents first; '0' follows '/'.
SELECT * FROM entities WHERE xid IN (
    SELECT found.xid
    FROM unnest($1::text[]) AS a (authority)
    CROSS JOIN LATERAL (
        SELECT e.xid FROM entities e WHERE e.authority = a.authority AND e.origin = ANY ($2::text[])
        UNION ALL
        SELECT e.xid FROM unnest($3::text[]) AS path
        JOIN entities e ON e.authority = a.authority
            AND e.origin > path || '/' AND e.origin < path || '0'
    ) AS found)
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
-- The entities at the xids of incoming copies, ignoring the case of ids, or of their origins, the
-- default versions of the resources among these, those with the xids $5, and the tombstones of the
-- origins.
WITH held AS MATERIALIZED (
    SELECT e.* FROM unnest($1::text[], $2::text[]) AS wanted (collection, id)
    JOIN entities e ON e.collection = wanted.collection AND lower(e.id) COLLATE "C" = wanted.id
    UNION ALL
    SELECT e.* FROM unnest($3::text[], $4::text[]) AS wanted (authority, origin)
    JOIN entities e ON e.authority = wanted.authority AND e.origin = wanted.origin
)
SELECT held.*, NULL::tombstones AS tombstone FROM held
UNION ALL
SELECT v.*, NULL FROM entities v
WHERE v.xid = ANY ($5::text[] || ARRAY(
    SELECT xid || '/versions/' || (attributes ->> 'defaultversionid') FROM held
    WHERE kind = 'resource'
))
UNION ALL
SELECT (NULL::entities).*, t FROM unnest($3::text[], $4::text[]) AS wanted (authority, origin)
JOIN tombstones t ON t.authority = wanted.authority AND t.origin = wanted.origin

-- name: load_with_ancestors
-- The entities of origins, without the registry, the groups and resources above them, and the
-- tombstones of origins.
WITH live AS MATERIALIZED (
    SELECT e.* FROM unnest($1::text[], $2::text[]) AS wanted (authority, origin)
    JOIN entities e ON e.authority = wanted.authority AND e.origin = wanted.origin
    WHERE e.kind <> 'registry'
)
SELECT live.*, NULL::tombstones AS tombstone, false AS is_above FROM live
UNION ALL
SELECT a.*, NULL, true FROM entities a
WHERE a.xid = ANY (ARRAY(
        SELECT '/' || split_part(xid, '/', 2) || '/' || split_part(xid, '/', 3) FROM live
        UNION
        SELECT left(collection, -9) FROM live WHERE kind = 'version'
    )) AND NOT EXISTS (SELECT FROM live WHERE live.xid = a.xid)
UNION ALL
SELECT (NULL::entities).*, t, false
FROM unnest($1::text[], $2::text[]) AS wanted (authority, origin)
JOIN tombstones t ON t.authority = wanted.authority AND t.origin = wanted.origin

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

-- name: unlabelled
-- The groups and resources of authorities (null stands for all) but one which labels do not
-- select: all, or those of origins $4 and $5, with the resources in such groups.
WITH looked_at AS (
    SELECT e.* FROM entities e
    WHERE $4::text[] IS NULL AND e.kind IN ('group', 'resource') AND e.authority <> $1
        AND ($2::text[] IS NULL OR e.authority = ANY ($2))
    UNION
    SELECT e.* FROM unnest($4::text[], $5::text[]) AS o (authority, origin)
    JOIN entities u ON u.authority = o.authority AND u.origin = o.origin
    JOIN entities e ON e.xid = u.xid
        OR (u.kind = 'group' AND e.kind = 'resource'
            AND e.xid > u.xid || '/' AND e.xid < u.xid || '0')
    WHERE u.authority <> $1 AND NOT has_labels(u.attributes, $3)
)
SELECT e.xid, e.authority, e.origin
FROM looked_at e
LEFT JOIN entities g ON g.xid = split_part(e.xid, '/', 1) || '/' || split_part(e.xid, '/', 2)
    || '/' || split_part(e.xid, '/', 3)
LEFT JOIN entities v ON e.kind = 'resource'
    AND v.xid = e.xid || '/versions/' || (e.attributes ->> 'defaultversionid')
WHERE NOT has_labels(g.attributes, $3)
    AND CASE WHEN e.kind = 'resource' THEN NOT has_labels(v.attributes, $3)
        ELSE NOT EXISTS (SELECT FROM entities c WHERE c.kind = 'resource'
            AND c.xid > e.xid || '/' AND c.xid < e.xid || '0') END
ORDER BY e.authority, e.origin

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
    SELECT xid, coalesce(replaced ->> 'xref', attributes ->> 'xref') AS published
    FROM entities
    WHERE kind = 'resource' AND attributes ? 'xref' AND authority = $1
)
UPDATE entities e SET
    attributes = jsonb_build_object('xref', $3 || substr(r.published, length($2) + 1)),
    replaced = CASE WHEN $2 <> $3 THEN jsonb_build_object('xref', r.published) END
FROM reference r
WHERE e.xid = r.xid AND starts_with(r.published, $2 || '/')
RETURNING e.*

-- name: forget_deletions
-- Delete the tombstones of these origins.
DELETE FROM tombstones t USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE t.authority = o.authority AND t.origin = o.origin

-- name: drop
-- Delete entities without tombstones.
WITH gone AS (
    DELETE FROM entities e WHERE xid = ANY ($1::text[])
    RETURNING e.xid, e.epoch, e.attributes, e.createdat, e.modifiedat, e.document_sha256
)
INSERT INTO revisions (
    xid, epoch, attributes, createdat, modifiedat, document_sha256, document, size)
SELECT g.xid, g.epoch, g.attributes, g.createdat, g.modifiedat, g.document_sha256, d.body,
    pg_column_size(g.attributes) + coalesce(octet_length(d.body), 0)
FROM gone g LEFT JOIN documents d ON d.xid = g.xid
WHERE (SELECT revisionsafter IS NOT NULL FROM node)
ON CONFLICT (xid, txid) DO NOTHING

-- name: rehash_documents
-- The hashes of the stored documents of these entities.
SELECT xid, sha256(body) AS sha256 FROM documents WHERE xid = ANY ($1::text[])

-- name: count_replicas
-- The number of entities of some authorities; null stands for all but the node's own, $2.
SELECT count(*) FROM entities
WHERE CASE WHEN $1::text[] IS NULL THEN authority <> $2 ELSE authority = ANY ($1) END
