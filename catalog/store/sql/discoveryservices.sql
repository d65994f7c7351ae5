-- name: page
-- One page of services in the order of their endpoints' ids, after one id.
SELECT * FROM entities
WHERE collection = '/endpoints' AND attributes -> 'usage' ? 'subscriber'
    AND lower(id) COLLATE "C" > $1
ORDER BY lower(id) COLLATE "C"
LIMIT $2

-- name: find_by_ids
-- Endpoints that may have one of these service ids, as their own id or derived.
SELECT * FROM entities WHERE collection = '/endpoints' AND lower(id) COLLATE "C" = ANY ($1::text[])
UNION ALL
SELECT e.* FROM service_ids s
JOIN entities e USING (authority, origin)
WHERE s.id = ANY ($2::uuid[]) AND e.collection = '/endpoints'
    AND lower(e.id) COLLATE "C" <> ALL ($1::text[])

-- name: find_by_names
-- Services by folded names; the id of the endpoint stands for a missing name.
SELECT e.* FROM (SELECT DISTINCT unnest($1::text[]) AS name) AS wanted
CROSS JOIN LATERAL (
    SELECT * FROM entities named
    WHERE named.collection = '/endpoints' AND named.attributes -> 'usage' ? 'subscriber'
        AND left(fold_case(named.attributes ->> 'name'), 256) COLLATE "C"
            = left(wanted.name, 256) COLLATE "C"
        AND fold_case(named.attributes ->> 'name') = wanted.name
    UNION ALL
    SELECT * FROM entities nameless
    WHERE nameless.collection = '/endpoints' AND nameless.attributes -> 'usage' ? 'subscriber'
        AND lower(nameless.id) COLLATE "C" = wanted.name COLLATE "C"
        AND NOT nameless.attributes ? 'name'
) AS e
ORDER BY e.createdat, e.xid

-- name: lock_names
-- Lock folded names, in the order of keys, which differ from the keys of entities.
SELECT pg_advisory_xact_lock(hashtext('services'), ordered.key)
FROM (
    SELECT DISTINCT hashtext(name) AS key FROM unnest($1::text[]) AS name
    ORDER BY key
    OFFSET 0
) AS ordered

-- name: fold
-- Names with the form in which they are compared.
SELECT name, fold_case(name) AS folded FROM unnest($1::text[]) AS name

-- name: find_underived
-- Origins of services whose derived ids are not stored yet.
SELECT e.authority, e.origin FROM entities e
WHERE e.collection = '/endpoints' AND e.attributes -> 'usage' ? 'subscriber'
    AND NOT (e.origin = e.xid AND e.id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
    AND NOT EXISTS (
        SELECT FROM service_ids s WHERE s.authority = e.authority AND s.origin = e.origin
    )

-- name: remember
-- Store ids that were derived from origins.
INSERT INTO service_ids (authority, origin, id)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[])
ORDER BY 1, 2
ON CONFLICT DO NOTHING

-- name: members
-- The xids of all entities of some collections, in order.
SELECT xid FROM entities WHERE collection = ANY ($1::text[])
ORDER BY collection, lower(id) COLLATE "C"

-- name: accept
-- Store a request for later processing, unless too many are pending.
INSERT INTO service_requests (id, deadline)
SELECT $1, clock_timestamp() + make_interval(secs => $2)
WHERE (
    SELECT count(*) FROM service_requests
    WHERE state = 'pending' AND deadline > clock_timestamp()
) < $3
RETURNING id

-- name: forget
-- Delete the requests that are too old, and the oldest ended ones beyond a limit.
DELETE FROM service_requests WHERE at < now() - make_interval(secs => $1) OR id IN (
    SELECT id FROM service_requests
    WHERE state <> 'pending' OR deadline <= clock_timestamp()
    ORDER BY at DESC OFFSET $2
)

-- name: settle
-- Store the result of a request, unless its deadline has passed.
UPDATE service_requests SET state = $2, headers = $3::jsonb, body = $4
WHERE id = $1 AND state = 'pending' AND deadline > clock_timestamp()
RETURNING id

-- name: interrupt
-- Mark a request as failed after its deadline; waits for a transaction that settles it.
UPDATE service_requests SET state = 'failed'
WHERE id = $1 AND state = 'pending' AND deadline <= clock_timestamp()

-- name: status
-- The state and the answer of a request.
SELECT state, headers, body FROM service_requests WHERE id = $1

-- name: find_referring
-- The endpoints that refer to message groups by one of these texts.
SELECT xid FROM entities
WHERE collection = '/endpoints' AND attributes -> 'messagegroups' ?| $1::text[]
