-- name: sources
-- The cross references to some resources, each with the group that it is in.
SELECT s.xid AS source, s.attributes ->> 'xref' AS target, g.*
FROM entities s
JOIN entities g ON g.xid = '/' || split_part(s.xid, '/', 2) || '/' || split_part(s.xid, '/', 3)
WHERE s.attributes ->> 'xref' = ANY ($1::text[]) AND s.kind = 'resource'

-- name: all_references
-- Every cross reference and what it refers to.
SELECT xid, attributes ->> 'xref' AS target FROM entities
WHERE attributes ->> 'xref' IS NOT NULL AND kind = 'resource' ORDER BY xid
