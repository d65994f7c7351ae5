-- name: ping
-- Whether the database answers.
SELECT 1

-- name: log
-- The sizes of the database and of the change log, the number of its last entry, and the age of the
-- last backup. The number of entities is approximate.
SELECT pg_database_size(current_database()) AS bytes,
    coalesce(newest.seq, dropped_seq) AS newest_seq,
    (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'entities'::regclass) AS entities,
    coalesce(newest.seq - oldest.seq + 1, 0) AS entries,
    extract(epoch FROM now() - oldest.at)::float8 AS oldest_seconds,
    extract(epoch FROM now() - newest.at)::float8 AS newest_seconds,
    extract(epoch FROM now() - backedupat)::float8 AS backup_seconds
FROM node
LEFT JOIN LATERAL (SELECT seq, at FROM changes ORDER BY txid, seq LIMIT 1) AS oldest ON true
LEFT JOIN LATERAL (
    SELECT seq, at FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true

-- name: subscriptions
-- The subscriptions by state.
SELECT state, count(*) AS number FROM subscriptions GROUP BY state

-- name: totals
-- What all subscriptions and links have counted, those that are gone included.
SELECT f.delivered + s.delivered AS delivered, f.failed + s.failed AS failed,
    f.failedattempts + s.failedattempts AS failedattempts,
    f.applied + l.applied AS applied, f.errors + l.errors AS errors
FROM former_counts f,
    (
        SELECT coalesce(sum(delivered), 0)::bigint AS delivered,
            coalesce(sum(failed), 0)::bigint AS failed,
            coalesce(sum(failedattempts), 0)::bigint AS failedattempts
        FROM subscriptions
    ) AS s,
    (
        SELECT coalesce(sum(applied), 0)::bigint AS applied,
            coalesce(sum(all_errors(errors)), 0)::bigint AS errors
        FROM links
    ) AS l

-- name: slowest_subscriptions
-- The subscriptions that are furthest behind in the change log, and by how much.
SELECT s.id, s.state, s.delivered, s.failed, s.failedattempts, s.failures,
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
-- The links whose entities differ from those of their peers, then the links that have not been
-- current for longest. The lag is unknown of links that never were.
SELECT l.id, l.definition ->> 'mode' AS mode, l.state, l.applied, l.failures, l.behind, l.differing,
    all_errors(l.errors) AS errors,
    (SELECT count(*) FROM conflicts c WHERE c.link = l.id) AS conflicts,
    CASE WHEN l.state = 'current' THEN 0
        ELSE extract(epoch FROM now() - l.currentat) END::float8 AS seconds
FROM links l
ORDER BY coalesce(l.differing, 0) = 0, l.state = 'current', l.currentat NULLS FIRST, l.id
LIMIT $1

-- name: link_credentials
-- The credentials of links that end first, of those whose end is known.
SELECT l.id, e.part, extract(epoch FROM e.endsat - now())::float8 AS seconds
FROM links l, LATERAL (VALUES
    ('certificate', (l.credential #>> '{certificate,endsat}')::timestamptz),
    ('token', (l.credential ->> 'tokenendsat')::timestamptz)
) AS e (part, endsat)
WHERE e.endsat IS NOT NULL
ORDER BY e.endsat, l.id LIMIT $1

-- name: reconciliations
-- The latest report of each outcome.
SELECT DISTINCT ON (outcome) outcome, extract(epoch FROM now() - at)::float8 AS seconds
FROM reconciliations ORDER BY outcome, at DESC

-- name: differences
-- The differences that the last comparison found which came to an end.
SELECT d.key AS finding, d.value::bigint AS number
FROM (
    SELECT findings FROM reconciliations WHERE outcome <> 'failed' ORDER BY at DESC LIMIT 1
) AS r, jsonb_each_text(r.findings) AS d
