-- name: add
-- Store conflicts, up to a limit, so that no source can fill the disk with them.
INSERT INTO conflicts (link, authority, origin, xid, epoch, verdict, detail, at)
SELECT DISTINCT ON (c.authority, c.origin) $1, c.*, $8::timestamptz
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
    AS c (authority, origin, xid, epoch, verdict, detail)
WHERE (SELECT count(*) FROM conflicts WHERE link = $1) < $9
ON CONFLICT (link, authority, origin) DO UPDATE SET
    xid = excluded.xid, epoch = excluded.epoch, verdict = excluded.verdict,
    detail = excluded.detail, at = excluded.at
WHERE (conflicts.epoch, conflicts.verdict, conflicts.detail)
    IS DISTINCT FROM (excluded.epoch, excluded.verdict, excluded.detail)

-- name: settle
-- Delete the conflicts of origins, of all links that bring: what is here settles nothing elsewhere.
DELETE FROM conflicts c USING unnest($1::text[], $2::text[]) AS o (authority, origin)
WHERE c.authority = o.authority AND c.origin = o.origin
    AND EXISTS (SELECT FROM bringing_links b WHERE b.id = c.link)

-- name: drop
-- Delete the conflicts of origins that one link has.
DELETE FROM conflicts c USING unnest($2::text[], $3::text[]) AS o (authority, origin)
WHERE c.link = $1 AND c.authority = o.authority AND c.origin = o.origin

-- name: forget
-- Delete all conflicts of a link, since a complete copy comes.
DELETE FROM conflicts WHERE link = $1

-- name: load
-- One page of the conflicts of a link, in the order of origins, after one or from the beginning:
-- of a copy that could not be read, the origin is empty.
SELECT * FROM conflicts WHERE link = $1 AND ($2::text IS NULL OR (authority, origin) > ($2, $3))
ORDER BY authority, origin LIMIT $4
