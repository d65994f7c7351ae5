-- name: create
-- Add a subscription with its cursor.
INSERT INTO subscriptions (id, definition, sinkcredential, txid, seq)
VALUES ($1, $2::jsonb, $3::jsonb, $4, $5)
RETURNING *, 0 AS lag

-- name: replace
-- Replace the definition of a subscription, which keeps its cursor.
UPDATE subscriptions SET
    definition = $2::jsonb, sinkcredential = $3::jsonb, state = 'active', failures = 0,
    error = NULL, lostat = NULL, revision = nextval('subscriptions_revision')
WHERE id = $1
RETURNING *, (
    SELECT count(*) FROM (
        SELECT FROM changes c WHERE (c.txid, c.seq) > (subscriptions.txid, subscriptions.seq)
        LIMIT 1000
    ) AS unread
) AS lag

-- name: delete
-- Delete a subscription.
DELETE FROM subscriptions WHERE id = $1
RETURNING *, 0 AS lag

-- name: get
-- One subscription with the number of changes after its cursor, 1000 at most.
SELECT s.*, unread.lag FROM subscriptions s
CROSS JOIN LATERAL (
    SELECT count(*) AS lag FROM (
        SELECT FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq) LIMIT 1000
    ) AS counted
) AS unread
WHERE s.id = $1

-- name: page
-- One page of subscriptions in the order of their ids, after one id.
SELECT s.*, unread.lag FROM (
    SELECT * FROM subscriptions WHERE id > $1 ORDER BY id LIMIT $2
) AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS lag FROM (
        SELECT FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq) LIMIT 1000
    ) AS counted
) AS unread
ORDER BY s.id

-- name: count
-- The number of subscriptions.
SELECT count(*) FROM subscriptions

-- name: revisions
-- The id and the revision of every active subscription.
SELECT id, revision FROM subscriptions WHERE state = 'active'

-- name: load
-- Subscriptions by id.
SELECT *, 0 AS lag FROM subscriptions WHERE id = ANY ($1::text[])

-- name: save_progress
-- Store the progress of subscriptions; their states only where the revision is the same.
UPDATE subscriptions s SET
    txid = CASE WHEN (p.txid, p.seq) > (s.txid, s.seq) THEN p.txid ELSE s.txid END,
    seq = CASE WHEN (p.txid, p.seq) > (s.txid, s.seq) THEN p.seq ELSE s.seq END,
    delivered = s.delivered + p.delivered,
    deliveredat = coalesce(p.deliveredat, s.deliveredat),
    state = CASE WHEN s.revision = p.revision THEN p.state ELSE s.state END,
    failures = CASE WHEN s.revision = p.revision THEN p.failures ELSE s.failures END,
    error = CASE WHEN s.revision = p.revision THEN p.error ELSE s.error END,
    lostat = CASE WHEN s.revision = p.revision THEN coalesce(p.lostat, s.lostat) ELSE s.lostat END
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
    $7::text[], $8::integer[], $9::text[], $10::timestamptz[]
) AS p (id, revision, txid, seq, delivered, deliveredat, state, failures, error, lostat)
WHERE s.id = p.id

-- name: pull_back
-- Move cursors beyond the end of this log, which are from another server, to its end.
UPDATE subscriptions SET txid = $1, seq = $2 WHERE (txid, seq) > ($1, $2)

-- name: announce
-- Tell the process that delivers which subscription changed.
SELECT pg_notify('subscriptions', $1)
