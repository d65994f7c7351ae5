-- name: read
-- The configuration in force.
SELECT modelsource, resolved, capabilities, revision FROM node

-- name: read_revision
-- The revision of the configuration in force.
SELECT revision FROM node

-- name: save
-- Put a configuration in force, and tell every process of the node.
UPDATE node
SET modelsource = $1::json, resolved = $2::json, capabilities = $3::json, revision = $4
RETURNING pg_notify('configuration', '')

-- name: groups_of_type
-- Every group of one type.
SELECT * FROM entities WHERE collection = $1 ORDER BY lower(id) COLLATE "C"

-- name: resources_of_type
-- Every resource of one type, between the bounds of the xids of its groups.
SELECT * FROM entities
WHERE xid > $1 AND xid < $2 AND kind = 'resource' AND split_part(xid, '/', 4) = $3
ORDER BY xid

-- name: unchecked_resources
-- The resources of one type and authority of which some version could not be checked.
SELECT r.* FROM entities r
WHERE r.xid > $1 AND r.xid < $2 AND r.kind = 'resource' AND split_part(r.xid, '/', 4) = $3
  AND r.authority = $4
  AND EXISTS (
    SELECT FROM entities v
    WHERE v.collection = r.xid || '/versions'
      AND 'false' IN (
        v.attributes ->> 'formatvalidated', v.attributes ->> 'compatibilityvalidated'
      )
  )
ORDER BY r.xid
