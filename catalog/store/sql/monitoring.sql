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

-- name: server
-- What the server is set to, and how it is.
SELECT current_setting('server_version') AS version,
    current_setting('server_version_num')::integer / 10000 AS major,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer AS connections,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
    (SELECT max(age(datfrozenxid)) FROM pg_database) AS age,
    pg_encoding_to_char(d.encoding) AS encoding,
    d.datcollversion AS collation_made,
    pg_database_collation_actual_version(d.oid) AS collation_now,
    pg_is_in_recovery() AS is_standby
FROM pg_database d WHERE d.datname = current_database()

-- name: clock
-- The time of the server.
SELECT clock_timestamp()

-- name: transactions
-- The oldest transactions of the server that hold back what readers of the log see.
SELECT coalesce(pid::text, '') AS process, coalesce(datname, '') AS database,
    coalesce(application_name, '') AS program,
    coalesce(extract(epoch FROM now() - xact_start), 0)::float8 AS seconds
FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND xact_start < now() - make_interval(secs => $1)
UNION ALL
SELECT gid, database, 'prepared transaction', extract(epoch FROM now() - prepared)::float8
FROM pg_prepared_xacts WHERE prepared < now() - make_interval(secs => $1)
ORDER BY seconds DESC LIMIT 10

-- name: node
-- Which instance of which authority this is, and whether it takes writes.
SELECT instance, authority, gate FROM node

-- name: sinks
-- Where subscriptions that are under way deliver to.
SELECT id, definition ->> 'sink' AS sink, state FROM subscriptions
WHERE state IN ('pending', 'active', 'paused') ORDER BY id LIMIT $1

-- name: share_of_sample
-- The share of the search index, in percent, that has some number of pages of the database.
SELECT least(100, 100.0 * $1 / greatest(pg_relation_size('public.search_index') / 8192, 1))::real

-- name: sample
-- The numbers of groups and resources by type, authority and format, in a share of the index.
SELECT type, authority, format, count(*) AS number
FROM search_index TABLESAMPLE SYSTEM ($1)
WHERE is_listed
GROUP BY type, authority, format

-- name: count_first
-- The numbers of groups and resources by type, authority and format, among the first.
SELECT type, authority, format, count(*) AS number
FROM (SELECT type, authority, format FROM search_index WHERE is_listed LIMIT $1) AS seen
GROUP BY type, authority, format
