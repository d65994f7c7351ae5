-- name: create
-- Add a subscription that begins at a position.
INSERT INTO subscriptions (id, definition, sinkcredential, txid, seq)
VALUES ($1, $2::jsonb, $3::jsonb, $4, $5)
RETURNING *, 0 AS lag

-- name: replace
-- Give a subscription another definition; it goes on from where it was.
UPDATE subscriptions SET
    definition = $2::jsonb, sinkcredential = $3::jsonb, state = 'active', failures = 0,
    error = NULL, revision = nextval('subscriptions_revision')
WHERE id = $1
RETURNING *, (
    SELECT count(*) FROM (
        SELECT FROM changes c WHERE (c.txid, c.seq) > (subscriptions.txid, subscriptions.seq)
        LIMIT 1000
    ) AS unread
) AS lag

-- name: delete
-- Remove a subscription and its position.
DELETE FROM subscriptions WHERE id = $1
RETURNING *, 0 AS lag

-- name: get
-- One subscription with how many changes it has not seen yet, counted up to a bound.
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

-- name: revisions
-- Which subscriptions are active, and the revision of each.
SELECT id, revision FROM subscriptions WHERE state = 'active'

-- name: load
-- Subscriptions by id.
SELECT *, 0 AS lag FROM subscriptions WHERE id = ANY ($1::text[])

-- name: save_progress
-- Record what was delivered; the state only of the revision that it was delivered by.
UPDATE subscriptions s SET
    txid = CASE WHEN (p.txid, p.seq) > (s.txid, s.seq) THEN p.txid ELSE s.txid END,
    seq = CASE WHEN (p.txid, p.seq) > (s.txid, s.seq) THEN p.seq ELSE s.seq END,
    delivered = s.delivered + p.delivered,
    deliveredat = coalesce(p.deliveredat, s.deliveredat),
    state = CASE WHEN s.revision = p.revision THEN p.state ELSE s.state END,
    failures = CASE WHEN s.revision = p.revision THEN p.failures ELSE s.failures END,
    error = CASE WHEN s.revision = p.revision THEN p.error ELSE s.error END
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
    $7::text[], $8::integer[], $9::text[]
) AS p (id, revision, txid, seq, delivered, deliveredat, state, failures, error)
WHERE s.id = p.id

-- name: pull_back
-- Positions from another server's log, beyond the end of this one, begin at its end.
UPDATE subscriptions SET txid = $1, seq = $2 WHERE (txid, seq) > ($1, $2)

-- name: announce
-- Wake the process that delivers: a subscription changed.
SELECT pg_notify('subscriptions', $1)
