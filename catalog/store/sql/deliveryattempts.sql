-- name: add
-- Add attempts in their order, of those subscriptions that still exist.
INSERT INTO delivery_attempts (subscription, at, events, outcome, reason, milliseconds)
SELECT a.subscription, a.at, a.events, a.outcome, a.reason, a.milliseconds
FROM (
    SELECT * FROM unnest(
        $1::text[], $2::timestamptz[], $3::integer[], $4::text[], $5::text[], $6::integer[]
    ) WITH ORDINALITY AS e (subscription, at, events, outcome, reason, milliseconds, place)
    WHERE EXISTS (SELECT FROM subscriptions s WHERE s.id = e.subscription FOR KEY SHARE)
    ORDER BY place
) AS a

-- name: page
-- The attempts of a subscription before a number, the newest first.
SELECT * FROM delivery_attempts WHERE subscription = $1 AND number < $2
ORDER BY number DESC LIMIT $3

-- name: trim
-- Delete the attempts from before a time, and those of each subscription beyond a number; how many.
WITH oldest AS (
    SELECT s.id, o.number FROM subscriptions s
    CROSS JOIN LATERAL (
        SELECT number FROM delivery_attempts WHERE subscription = s.id
        ORDER BY number DESC OFFSET $2 LIMIT 1
    ) AS o
), gone AS (
    DELETE FROM delivery_attempts a
    WHERE a.at < $1
        OR EXISTS (
            SELECT FROM oldest o WHERE o.id = a.subscription AND a.number <= o.number
        )
    RETURNING a.number
)
SELECT count(*) FROM gone
