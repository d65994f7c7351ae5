-- name: ping
-- Whether the database answers.
SELECT 1

-- name: log
-- The sizes of the database and of the change log. The number of entities is approximate.
SELECT pg_database_size(current_database()) AS bytes,
    (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'entities'::regclass) AS entities,
    coalesce(newest.seq - oldest.seq + 1, 0) AS entries,
    extract(epoch FROM now() - oldest.at)::float8 AS oldest_seconds,
    extract(epoch FROM now() - newest.at)::float8 AS newest_seconds
FROM node
LEFT JOIN LATERAL (SELECT seq, at FROM changes ORDER BY txid, seq LIMIT 1) AS oldest ON true
LEFT JOIN LATERAL (
    SELECT seq, at FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true

-- name: subscriptions
-- The subscriptions by state, with what they delivered and what their sinks never took.
SELECT state, count(*) AS number, sum(delivered)::bigint AS delivered, sum(failed)::bigint AS failed
FROM subscriptions GROUP BY state

-- name: slowest_subscriptions
-- The subscriptions that are furthest behind in the change log, and by how much.
SELECT s.id, s.state, s.delivered, s.failed, s.failures,
    coalesce(newest.seq - next.seq + 1, 0) AS changes,
    coalesce(extract(epoch FROM now() - next.at), 0)::float8 AS seconds
FROM (
    SELECT * FROM subscriptions
    WHERE log = 'changes' AND state IN ('pending', 'active', 'paused')
    ORDER BY txid, seq LIMIT $1
) AS s
LEFT JOIN LATERAL (
    SELECT c.seq, c.at FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq)
    ORDER BY c.txid, c.seq LIMIT 1
) AS next ON true
LEFT JOIN LATERAL (
    SELECT seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true

-- name: link_states
-- The links by mode and state.
SELECT definition ->> 'mode' AS mode, state, count(*) AS number
FROM links GROUP BY mode, state

-- name: worst_links
-- The links that have not been current for longest, and their conflicts. The lag is unknown of
-- those that never were.
SELECT l.id, l.definition ->> 'mode' AS mode, l.state, l.applied, l.failures,
    (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts,
    CASE WHEN l.state = 'current' THEN 0
        ELSE extract(epoch FROM now() - l.currentat) END::float8 AS seconds
FROM links l
ORDER BY l.state = 'current', l.currentat NULLS FIRST, l.id
LIMIT $1
