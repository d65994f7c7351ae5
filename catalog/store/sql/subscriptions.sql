-- name: create
-- Add a subscription with its cursor.
INSERT INTO subscriptions (
    id, definition, log, expiresat, state, reason, txid, seq, initial, createdby, creator)
VALUES ($1, $2::jsonb, $3, $4, $5, $6, $7, $8, $9, $10, $11::json)

-- name: replace
-- Replace the definition of a subscription, which keeps its cursor. One that is paused, or will be
-- once its sink has consented, stays so. $7 says whether it changes hands.
UPDATE subscriptions SET
    createdby = CASE WHEN $7 THEN $8 ELSE createdby END,
    creator = CASE WHEN $7 THEN $9::json ELSE creator END,
    definition = $2::jsonb, log = $3, expiresat = $4,
    state = CASE
        WHEN $5 = 'active' AND (state = 'paused' OR pausereason IS NOT NULL) THEN 'paused'
        ELSE $5 END,
    reason = CASE
        WHEN $5 = 'active' AND state = 'paused' THEN reason
        WHEN $5 = 'active' AND pausereason IS NOT NULL THEN pausereason
        ELSE $6 END,
    pausereason = CASE
        WHEN $5 <> 'pending' THEN NULL
        WHEN state = 'paused' THEN coalesce(reason, 'it was paused')
        ELSE pausereason END,
    failures = 0, failingsince = NULL, error = NULL, nextattemptat = NULL, tried = 0,
    triedsince = NULL, lostat = NULL, revision = nextval('subscriptions_revision')
WHERE id = $1

-- name: delete
-- Delete a subscription.
DELETE FROM subscriptions WHERE id = $1

-- name: get
-- One subscription.
SELECT * FROM subscriptions_shown WHERE id = $1

-- name: page
-- One page of subscriptions in the order of their ids, after one id.
SELECT * FROM subscriptions_shown WHERE id > $1 ORDER BY id LIMIT $2

-- name: page_of
-- The same of those that belong to one caller.
SELECT * FROM subscriptions_shown WHERE id > $1 AND createdby = $3 ORDER BY id LIMIT $2

-- name: count
-- The number of subscriptions, and of those that belong to $1.
SELECT count(*) AS kept, count(*) FILTER (WHERE createdby = $1) AS own FROM subscriptions

-- name: revisions
-- The id and the revision of every active subscription.
SELECT id, revision FROM subscriptions WHERE state = 'active'

-- name: load
-- Subscriptions by id.
SELECT *, 0 AS lag, NULL::timestamptz AS oldestat
FROM subscriptions WHERE id = ANY ($1::text[])

-- name: change_state
-- Give a subscription another state, if it has one of those in $4; it begins without failures.
UPDATE subscriptions SET
    state = $2, reason = $3, failures = 0, failingsince = NULL, error = NULL,
    nextattemptat = NULL, revision = nextval('subscriptions_revision')
WHERE id = $1 AND state = ANY ($4::text[])

-- name: pause_later
-- Have a pending subscription paused for the reason $2 once its sink has consented; if that is
-- null, have it delivered then.
UPDATE subscriptions SET pausereason = $2, revision = nextval('subscriptions_revision')
WHERE id = $1 AND state = 'pending' AND (pausereason IS NULL) <> ($2::text IS NULL)

-- name: move_cursor
-- Let a subscription go on from a position, whatever its delivery has reached.
UPDATE subscriptions SET
    txid = $2, seq = $3, course = course + 1, failures = 0, failingsince = NULL, error = NULL,
    nextattemptat = NULL, tried = 0, triedsince = NULL, lostat = NULL,
    revision = nextval('subscriptions_revision')
WHERE id = $1

-- name: expire
-- Expire the subscriptions whose time has come, and tell the processes that deliver.
WITH expired AS (
    UPDATE subscriptions SET
        state = 'expired', reason = 'its time is over', pausereason = NULL,
        revision = nextval('subscriptions_revision')
    WHERE id IN (
        SELECT id FROM subscriptions
        WHERE expiresat <= $1 AND state IN ('pending', 'active', 'paused')
        ORDER BY id FOR NO KEY UPDATE
    )
    RETURNING id
)
SELECT pg_notify('subscriptions', id) FROM expired

-- name: outlived
-- Which callers have subscriptions, but tokens that have expired.
SELECT createdby FROM access_tokens t
CROSS JOIN LATERAL (
    SELECT format('["token","",%s]', to_json(t.id)) AS createdby
) AS holder
WHERE expiresat <= $1 AND EXISTS (
    SELECT FROM subscriptions s
    WHERE s.createdby = holder.createdby AND s.state IN ('pending', 'active', 'paused')
)

-- name: save_progress
-- Store the progress of subscriptions: cursors only where the course is the same, and states only
-- where the revision is. Rows are locked in the order of their ids, so that no two processes wait
-- for each other.
WITH locked AS MATERIALIZED (
    SELECT id FROM subscriptions WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE
)
UPDATE subscriptions s SET
    txid = CASE WHEN s.course = p.course AND (p.txid, p.seq) > (s.txid, s.seq)
        THEN p.txid ELSE s.txid END,
    seq = CASE WHEN s.course = p.course AND (p.txid, p.seq) > (s.txid, s.seq)
        THEN p.seq ELSE s.seq END,
    initial = CASE WHEN s.course = p.course AND (p.initial IS NULL OR p.initial > s.initial)
        THEN p.initial ELSE s.initial END,
    delivered = s.delivered + p.delivered,
    deliveredat = coalesce(p.deliveredat, s.deliveredat),
    failed = s.failed + p.failed,
    failedattempts = s.failedattempts + p.failedattempts,
    failedat = coalesce(p.failedat, s.failedat),
    failedcause = coalesce(p.failedcause, s.failedcause),
    state = CASE WHEN s.revision = p.revision THEN p.state ELSE s.state END,
    reason = CASE WHEN s.revision = p.revision THEN p.reason ELSE s.reason END,
    failures = CASE WHEN s.revision = p.revision THEN p.failures ELSE s.failures END,
    failingsince = CASE WHEN s.revision = p.revision THEN p.failingsince ELSE s.failingsince END,
    error = CASE WHEN s.revision = p.revision THEN p.error ELSE s.error END,
    nextattemptat = CASE WHEN s.revision = p.revision
        THEN p.nextattemptat ELSE s.nextattemptat END,
    tried = CASE WHEN s.revision = p.revision THEN p.tried ELSE s.tried END,
    triedsince = CASE WHEN s.revision = p.revision THEN p.triedsince ELSE s.triedsince END,
    lostat = CASE WHEN s.revision = p.revision THEN coalesce(p.lostat, s.lostat) ELSE s.lostat END
FROM unnest(
    $1::text[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::text[],
    $7::bigint[], $8::timestamptz[], $9::bigint[], $10::bigint[], $11::timestamptz[],
    $12::text[], $13::text[], $14::text[], $15::integer[], $16::timestamptz[], $17::text[],
    $18::timestamptz[], $19::integer[], $20::timestamptz[], $21::timestamptz[]
) AS p (
    id, revision, course, txid, seq, initial,
    delivered, deliveredat, failed, failedattempts, failedat,
    failedcause, state, reason, failures, failingsince, error,
    nextattemptat, tried, triedsince, lostat)
JOIN locked USING (id)
WHERE s.id = p.id

-- name: pull_back
-- Move cursors beyond the end of this log, which are from another server, to its end.
UPDATE subscriptions SET txid = $1, seq = $2 WHERE (txid, seq) > ($1, $2)

-- name: announce
-- Tell the process that delivers which subscription changed.
SELECT pg_notify('subscriptions', $1)

-- name: lock
-- Let no other transaction change a subscription, its credential or its dead letters; no row if it
-- is gone.
SELECT id FROM subscriptions WHERE id = $1 FOR UPDATE

-- name: wake
-- Give a subscription another revision, by which the process that delivers begins anew from
-- its row.
UPDATE subscriptions SET revision = nextval('subscriptions_revision') WHERE id = $1

-- name: try_now
-- Have a subscription that waits after a failure try again at once.
UPDATE subscriptions SET nextattemptat = NULL, revision = nextval('subscriptions_revision')
WHERE id = $1
