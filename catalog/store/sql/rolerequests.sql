-- name: add
-- Keep a request; of an open one of the same caller, role and group, replace the reason.
INSERT INTO access_requests (id, who, name, role, path, reason, state, createdat)
VALUES ($1, $2, $3, $4, $5, $6, 'open', $7)
ON CONFLICT (who, path, role) WHERE state = 'open' DO UPDATE SET reason = excluded.reason
RETURNING *

-- name: count
-- How many open requests there are, and how many of a caller.
SELECT count(*) AS all_of_them, count(*) FILTER (WHERE who = $1) AS own
FROM access_requests WHERE state = 'open'

-- name: forget_decided
-- Forget the requests that were decided before a time, and the oldest ones beyond a number.
DELETE FROM access_requests
WHERE decidedat < $1 OR id IN (
    SELECT id FROM access_requests WHERE decidedat IS NOT NULL
    ORDER BY decidedat DESC, id OFFSET $2)

-- name: find
-- A request.
SELECT * FROM access_requests WHERE id = $1

-- name: lock
-- A request, locked until the transaction ends.
SELECT * FROM access_requests WHERE id = $1 FOR UPDATE

-- name: decide
-- Note what became of a request.
UPDATE access_requests SET state = $2, decidedat = $3, decidedby = $4, note = $5, rule = $6
WHERE id = $1

-- name: remove
-- Forget a request.
DELETE FROM access_requests WHERE id = $1

-- name: page
-- The requests before another one that a caller has made, or that are about groups of some rules, the
-- latest first; all requests without rules.
SELECT * FROM access_requests r
WHERE (who = $1 OR $2::text[] IS NULL
        OR EXISTS (SELECT FROM access_paths WHERE rule = ANY ($2) AND path = access_group(r.path))
        OR access_group(r.path) LIKE ANY ((
            SELECT array_agg(pattern) FROM access_paths
            WHERE rule = ANY ($2) AND pattern IS NOT NULL
        )::text[]))
    AND ($3::text IS NULL OR state = $3)
    AND ($4::text IS NULL OR access_group(r.path) = access_group($4))
    AND ($5::text = '' OR number < (SELECT number FROM access_requests WHERE id = $5))
ORDER BY number DESC LIMIT $6

-- name: holding
-- The rules that give a role at the path of a group, with the path of each that names the group.
SELECT r.id, r.who, r.role, p.path
FROM access_rules r
JOIN LATERAL (
    SELECT path FROM access_paths
    WHERE rule = r.id AND (path = access_group($1)
        OR pattern IS NOT NULL AND access_group($1) LIKE pattern)
    ORDER BY path LIMIT 1
) p ON true
ORDER BY r.role, r.who, r.id LIMIT $2
