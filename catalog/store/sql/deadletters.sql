-- name: add
-- Add events in their order as long as there is room; how many of the first are stored then.
WITH given AS (
    SELECT * FROM unnest(
        $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::integer[], $7::text[],
        $8::text[], $10::text[]
    ) WITH ORDINALITY AS e (eventid, subject, event, at, attempts, reason, state, xid, place)
), fresh AS (
    SELECT g.*, row_number() OVER (ORDER BY g.place) <= $9 - (
        SELECT count(*) FROM dead_letters WHERE subscription = $1
    ) AS fits
    FROM given g
    WHERE NOT EXISTS (
        SELECT FROM dead_letters d WHERE d.subscription = $1 AND d.eventid = g.eventid
    )
), added AS (
    INSERT INTO dead_letters
        (subscription, eventid, subject, event, at, attempts, reason, state, xid)
    SELECT $1, eventid, subject, event, at, attempts, reason, state, xid FROM fresh WHERE fits
    ORDER BY place
    ON CONFLICT DO NOTHING
)
SELECT coalesce(
    (SELECT min(place) - 1 FROM fresh WHERE NOT fits), (SELECT count(*) FROM given)
)

-- name: release
-- Have what waits behind no dead letter of its subject delivered; how many.
WITH released AS (
    UPDATE dead_letters w SET state = 'due'
    WHERE w.subscription = $1 AND w.state = 'waiting' AND w.number < coalesce((
        SELECT min(d.number) FROM dead_letters d
        WHERE d.subscription = $1 AND d.subject = w.subject AND d.state = 'dead'
    ), 9223372036854775807)
    RETURNING w.number
)
SELECT count(*) FROM released

-- name: read_due
-- The first dead letters of a subscription that are to be delivered again.
SELECT * FROM dead_letters WHERE subscription = $1 AND state = 'due' ORDER BY number LIMIT $2

-- name: remove
-- Delete dead letters by number.
DELETE FROM dead_letters WHERE subscription = $1 AND number = ANY ($2::bigint[])

-- name: set_dead
-- Note that a dead letter failed again; $6 says whether later ones of its subject wait for it.
WITH failed AS (
    UPDATE dead_letters SET state = 'dead', attempts = attempts + $3, reason = $4, at = $5
    WHERE subscription = $1 AND number = $2
    RETURNING subject, number
)
UPDATE dead_letters w SET state = 'waiting' FROM failed f
WHERE $6 AND w.subscription = $1 AND w.subject = f.subject AND w.number > f.number
    AND w.state = 'due'

-- name: blocked_subjects
-- The subjects of a subscription's dead letters.
SELECT DISTINCT subject FROM dead_letters WHERE subscription = $1

-- name: count
-- The numbers of dead letters of subscriptions that have some, by state.
SELECT subscription, count(*) FILTER (WHERE state = 'dead') AS dead,
    count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'due') AS due
FROM dead_letters WHERE subscription = ANY ($1::text[])
GROUP BY subscription

-- name: page
-- The dead letters of a subscription after a number, of one reason or of all, without their events.
SELECT number, subscription, '\x'::bytea AS event, eventid, subject, at, attempts, reason, state,
    xid
FROM dead_letters WHERE subscription = $1 AND number > $2 AND ($4::text IS NULL OR reason = $4)
ORDER BY number LIMIT $3

-- name: causes
-- The dead letters of a subscription by reason and, if $2, by the group of their entity: how many
-- in each state, and the first and last failure.
SELECT reason, CASE WHEN $2 AND xid <> '/' THEN substring(xid FROM '^/[^/]+/[^/]+') END AS path,
    count(*) FILTER (WHERE state = 'dead') AS dead,
    count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'due') AS due, min(at) AS first, max(at) AS last
FROM dead_letters WHERE subscription = $1
GROUP BY 1, 2

-- name: get
-- One dead letter.
SELECT * FROM dead_letters WHERE subscription = $1 AND number = $2

-- name: mark_due
-- Have dead letters delivered again: one, those since a time or of a reason, or all; how many.
WITH marked AS (
    UPDATE dead_letters SET state = 'due'
    WHERE subscription = $1 AND state = 'dead' AND at >= coalesce($3::timestamptz, '-infinity')
        AND number BETWEEN coalesce($2::bigint, 0) AND coalesce($2, 9223372036854775807)
        AND ($4::text IS NULL OR reason = $4)
    RETURNING number
)
SELECT count(*) FROM marked

-- name: clear
-- Delete the dead letters of a subscription, of one reason or all; how many.
WITH gone AS (
    DELETE FROM dead_letters WHERE subscription = $1 AND ($2::text IS NULL OR reason = $2)
    RETURNING number
)
SELECT count(*) FROM gone

-- name: aged
-- The subscriptions of the oldest dead letters, of so many from before a time.
SELECT DISTINCT subscription FROM (
    SELECT subscription FROM dead_letters WHERE at < $1 ORDER BY at LIMIT $2
) AS oldest

-- name: drop_aged
-- Delete the dead letters of a subscription from before a time; how many.
WITH gone AS (
    DELETE FROM dead_letters WHERE subscription = $1 AND at < $2 RETURNING number
)
SELECT count(*) FROM gone
