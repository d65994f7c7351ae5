-- name: lock
-- Let one process at a time share out the leases, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('concord delivery leases', 0))

-- name: appear
-- Say that a process is there for some more seconds, as long as this connection lives.
INSERT INTO delivery_processes (id, until, backend, backend_start)
SELECT $1, clock_timestamp() + $2::interval, pid, backend_start
FROM pg_stat_activity WHERE pid = pg_backend_pid()
ON CONFLICT (id) DO UPDATE SET
    until = excluded.until, backend = excluded.backend, backend_start = excluded.backend_start

-- name: forget
-- Forget processes that were not heard of in time, or have lost their connection; their leases are
-- free then.
DELETE FROM delivery_processes p
WHERE p.until < clock_timestamp() OR NOT EXISTS (
    SELECT FROM pg_stat_activity a WHERE (a.pid, a.backend_start) = (p.backend, p.backend_start)
)

-- name: leave
-- Forget a process.
DELETE FROM delivery_processes WHERE id = $1

-- name: count_processes
-- The number of processes that deliver.
SELECT count(*) FROM delivery_processes

-- name: claim
-- Lease free shards until a process has its share; return all that it has then.
WITH claimed AS (
    UPDATE delivery_leases SET process = $1
    WHERE shard IN (
        SELECT shard FROM delivery_leases WHERE process IS NULL ORDER BY shard
        LIMIT greatest($2 - (SELECT count(*) FROM delivery_leases WHERE process = $1), 0)
    )
    RETURNING shard
)
SELECT shard FROM claimed
UNION SELECT shard FROM delivery_leases WHERE process = $1
ORDER BY shard

-- name: release
-- Give leases back.
UPDATE delivery_leases SET process = NULL WHERE process = $1 AND shard = ANY ($2::integer[])
