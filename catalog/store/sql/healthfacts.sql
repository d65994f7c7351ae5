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
