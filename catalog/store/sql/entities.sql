-- name: load
-- Entities by xid, without their documents.
SELECT * FROM entities WHERE xid = ANY ($1::text[])

-- name: load_by_origin
-- Entities by authority and origin.
SELECT e.* FROM entities e
JOIN unnest($1::text[], $2::text[]) AS o (authority, origin) USING (authority, origin)

-- name: load_by_path_at_authority
-- Entities of all authorities that have a path there; the authorities are few, and an index has
-- them in order, also where a caller may not see most of their entities.
WITH RECURSIVE known AS (
    SELECT min(authority) AS authority FROM public.entities
    UNION ALL
    SELECT (SELECT min(e.authority) FROM public.entities e WHERE e.authority > known.authority)
    FROM known WHERE known.authority IS NOT NULL
)
SELECT e.* FROM known JOIN entities e ON e.authority = known.authority AND e.origin = $1

-- name: load_tombstones
-- Tombstones by authority and origin.
SELECT t.* FROM tombstones t
JOIN unnest($1::text[], $2::text[]) AS o (authority, origin) USING (authority, origin)

-- name: numbers_of_deleted_versions
-- The numeric ids of versions that were deleted in the present life of their resources.
SELECT r.xid AS resource, range_agg(int8range(v.number, v.number, '[]')) AS numbers
FROM entities r
JOIN tombstones t ON t.authority = $1
    AND t.origin > r.xid || '/versions/' AND t.origin < r.xid || '/versions0'
    AND NOT t.is_past
CROSS JOIN LATERAL (SELECT substr(t.origin, length(r.xid) + 11)::bigint AS number) AS v
WHERE r.xid = ANY ($2::text[]) AND substr(t.origin, length(r.xid) + 11) ~ '^[0-9]{1,15}$'
GROUP BY r.xid

-- name: load_subtrees
-- Entities and everything below each of them, parents first.
SELECT e.*
FROM unnest($1::text[]) WITH ORDINALITY AS root (xid, position)
CROSS JOIN LATERAL (
    SELECT * FROM entities AS own WHERE own.xid = root.xid
    UNION ALL
    SELECT * FROM entities AS below
    WHERE below.xid >= root.xid || '/' AND below.xid < root.xid || '0'
) AS e
ORDER BY root.position, e.xid

-- name: load_shown
-- Resources, each with its default version and its number of versions.
SELECT * FROM resources_shown WHERE xid = ANY ($1::text[])

-- name: load_one_shown
-- One resource like `load_shown`, whose list of any length is planned for each execution.
SELECT * FROM resources_shown WHERE xid = $1

-- name: count_fitting
-- How many of these entities, in order, begin within so many bytes of metadata: a resource with its
-- default version; a cross reference, and a version that it shows, as the target.
SELECT count(*) FILTER (WHERE begun < $2) FROM (
    SELECT coalesce(sum(coalesce(octet_length(shown.attributes::text), 0)
            + coalesce(octet_length(version.attributes::text), 0))
        OVER (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS begun
    FROM unnest($1::text[]) WITH ORDINALITY AS page (xid, position)
    LEFT JOIN entities AS own ON own.xid = page.xid
    LEFT JOIN entities AS owner
        ON own.xid IS NULL AND owner.xid = split_part(page.xid, '/versions/', 1)
    LEFT JOIN entities AS shown ON shown.xid = coalesce(
        CASE WHEN own.kind = 'resource' THEN own.attributes ->> 'xref' END,
        own.xid,
        owner.attributes ->> 'xref' || '/versions/' || split_part(page.xid, '/versions/', 2)
    )
    LEFT JOIN entities AS version ON shown.kind = 'resource'
        AND version.xid = shown.xid || '/versions/' || (shown.attributes ->> 'defaultversionid')
) AS measured

-- name: measure_subtrees
-- The bytes of metadata of some entities and everything below each.
SELECT coalesce(sum(octet_length(part.attributes::text)), 0)
FROM unnest($1::text[]) AS root (xid)
CROSS JOIN LATERAL (
    SELECT attributes FROM entities AS own WHERE own.xid = root.xid
    UNION ALL
    SELECT attributes FROM entities AS below
    WHERE below.xid >= root.xid || '/' AND below.xid < root.xid || '0'
) AS part

-- name: load_ids
-- The ids of all entities of a collection.
SELECT id FROM entities WHERE collection = $1

-- name: find_by_key
-- The group or resource with the key of a short URL.
SELECT xid FROM entities WHERE short_key(xid) = $1 AND kind IN ('group', 'resource')

-- name: count_collections
-- The number of entities of each collection that is not empty.
SELECT collection, count(*) AS count FROM entities
WHERE collection = ANY ($1::text[]) GROUP BY collection

-- name: documents
-- The documents of several versions.
SELECT xid, body FROM documents WHERE xid = ANY ($1::text[])

-- name: sources
-- The cross references to some resources, each with its group.
SELECT s.xid AS source, s.attributes ->> 'xref' AS target, g.*
FROM entities s
JOIN entities g ON g.xid = '/' || split_part(s.xid, '/', 2) || '/' || split_part(s.xid, '/', 3)
WHERE s.attributes ->> 'xref' = ANY ($1::text[]) AND s.kind = 'resource'

-- name: all_references
-- Every cross reference with the xid of its target.
SELECT xid, attributes ->> 'xref' AS target FROM entities
WHERE attributes ->> 'xref' IS NOT NULL AND kind = 'resource' ORDER BY xid

-- name: entities_after
-- Groups, resources and versions after an xid, in the order of xids.
SELECT xid, kind, 'created' AS action, authority, origin, epoch, digest, '{}'::text[] AS changed,
    modifiedat
FROM entities WHERE xid > $1 AND kind <> 'registry'
ORDER BY xid LIMIT $2

-- name: members
-- The xids of the members of a set.
SELECT xid FROM set_members WHERE name = $1

-- name: claimed_by_others
-- The entities of a list that are members of another set.
SELECT DISTINCT xid FROM set_members WHERE xid = ANY ($2::text[]) AND name <> $1

-- name: add
-- Add members to a set.
INSERT INTO set_members (name, xid) SELECT $1, xid FROM unnest($2::text[]) AS xid
ON CONFLICT DO NOTHING

-- name: keep_only
-- Remove all members of a set except these.
DELETE FROM set_members
WHERE name = $1 AND xid NOT IN (SELECT unnest($2::text[]))
