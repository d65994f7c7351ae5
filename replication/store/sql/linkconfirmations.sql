-- name: confirm
-- Note for links that were current already, at once, when they found nothing new.
UPDATE links l SET currentat = c.at
FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS c (id, revision, at)
WHERE l.id = c.id AND l.revision = c.revision AND l.state = 'current'
