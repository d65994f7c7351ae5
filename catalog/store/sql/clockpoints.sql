-- name: last
-- The last point, and the clock of the database now.
SELECT clock_timestamp() AS now, p.txid, p.at, p.measured
FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
    SELECT txid, at, measured FROM clock_points ORDER BY txid DESC LIMIT 1
) AS p ON true

-- name: store
-- Store a point, and delete those that are older than $3 seconds but for the newest of them.
WITH stored AS (
    INSERT INTO clock_points (measured, jump) VALUES ($1, $2) RETURNING txid
), gone AS (
    DELETE FROM clock_points WHERE txid < (
        SELECT txid FROM clock_points WHERE measured <= $1::double precision - $3::double precision
        ORDER BY txid DESC LIMIT 1
    )
)
SELECT txid FROM stored

-- name: before
-- The newest point that is so many measured seconds before the last one, and the earliest clock of
-- that and all later points.
SELECT p.txid, (SELECT min(at) FROM clock_points l WHERE l.txid >= p.txid) AS at
FROM clock_points p
WHERE p.measured <= (SELECT max(measured) FROM clock_points) - $1::double precision
ORDER BY p.txid DESC LIMIT 1

-- name: jumps
-- The jumps of at least $1 seconds in the last $2 measured seconds, the last one first.
SELECT at, jump FROM clock_points
WHERE abs(jump) >= $1 AND measured >= (SELECT max(measured) FROM clock_points) - $2::double precision
ORDER BY txid DESC
