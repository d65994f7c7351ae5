-- name: members
-- The xids of what a set has.
SELECT xid FROM set_members WHERE name = $1

-- name: claimed_by_others
-- Those of some entities that another set has, too.
SELECT DISTINCT xid FROM set_members WHERE xid = ANY ($2::text[]) AND name <> $1

-- name: add
-- Let a set have entities.
INSERT INTO set_members (name, xid) SELECT $1, xid FROM unnest($2::text[]) AS xid
ON CONFLICT DO NOTHING

-- name: keep_only
-- Let a set have none but these.
DELETE FROM set_members
WHERE name = $1 AND xid NOT IN (SELECT unnest($2::text[]))
