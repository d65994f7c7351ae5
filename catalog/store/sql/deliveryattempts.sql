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
-- Delete the attempts from before $1, and those beyond the last $2 of each subscription that has had
-- any since $3; how many.
WITH busy AS (
    SELECT DISTINCT subscription FROM delivery_attempts WHERE at >= $3
), aged AS (
    DELETE FROM delivery_attempts WHERE at < $1 RETURNING number
), surplus AS (
    DELETE FROM delivery_attempts WHERE at >= $1 AND ctid = ANY (ARRAY(
        SELECT o.ctid FROM busy b CROSS JOIN LATERAL (
            SELECT ctid FROM delivery_attempts WHERE subscription = b.subscription
            ORDER BY number DESC OFFSET $2
        ) AS o
    ))
    RETURNING number
)
SELECT (SELECT count(*) FROM aged) + (SELECT count(*) FROM surplus)
