-- name: find
-- The default versions of message definitions with metadata in one of two forms, in lower case.
SELECT xid FROM entities
WHERE kind = 'version' AND listing IS NOT NULL
    AND split_part(xid, '/', 2) IN ('messagegroups', 'endpoints')
    AND (search_document(xid, id, attributes) @> $1::jsonb
        OR search_document(xid, id, attributes) @> $2::jsonb)
ORDER BY xid LIMIT $3
