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
