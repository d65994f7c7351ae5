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
