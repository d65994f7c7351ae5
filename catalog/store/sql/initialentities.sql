-- name: page
-- Groups, resources and versions after an xid, in the order of xids.
SELECT xid, kind, authority, origin, epoch, digest, modifiedat FROM entities
WHERE xid > $1 AND kind <> 'registry'
ORDER BY xid LIMIT $2
