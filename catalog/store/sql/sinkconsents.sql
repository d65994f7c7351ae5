-- name: lock
-- Lock a subscription before its consent, as whoever deletes it does.
SELECT FROM subscriptions WHERE id = $1 FOR UPDATE

-- name: seek
-- Let a sink be asked from $3 to $4, unless it has consented.
INSERT INTO sink_consents AS c (subscription, sinkorigin, askat, endsat) VALUES ($1, $2, $3, $4)
ON CONFLICT (subscription) DO UPDATE SET
    sinkorigin = $2, askat = $3, endsat = $4, attempts = 0, grantedat = NULL,
    requestorigin = NULL, allowedrate = NULL,
    callbacks = CASE WHEN c.sinkorigin = $2 THEN c.callbacks ELSE '{}' END
WHERE c.grantedat IS NULL OR c.sinkorigin <> $2
RETURNING subscription

-- name: forget
-- Forget the consent of a sink that needs none.
DELETE FROM sink_consents WHERE subscription = $1

-- name: is_missing
-- Whether a sink has yet to consent.
SELECT EXISTS (SELECT FROM sink_consents WHERE subscription = $1 AND grantedat IS NULL)

-- name: ask_at
-- Ask a sink that has yet to consent at a time.
UPDATE sink_consents SET askat = $3
WHERE subscription = $1 AND sinkorigin = $2 AND grantedat IS NULL

-- name: claim
-- Take sinks to ask that are due, up to $5 of one origin and none of the origins $4, new ones
-- first. Others may take them again at $2, should this process end.
WITH due AS (
    SELECT subscription, row_number() OVER (
        PARTITION BY sinkorigin ORDER BY attempts, askat, subscription
    ) AS place
    FROM sink_consents WHERE askat <= $1 AND sinkorigin <> ALL ($4::text[])
), taken AS (
    SELECT c.subscription FROM sink_consents c JOIN due USING (subscription)
    WHERE place <= $5 AND c.askat <= $1
    ORDER BY c.attempts, c.askat LIMIT $3
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE sink_consents c SET
    attempts = c.attempts + 1, askat = CASE WHEN s.state = 'pending' THEN $2::timestamptz END
FROM taken, subscriptions s
WHERE c.subscription = taken.subscription AND s.id = taken.subscription
RETURNING s.id, s.state, s.definition ->> 'sink' AS sink, c.sinkorigin, c.attempts, c.endsat

-- name: next_at
-- When a sink is to be asked next.
SELECT min(askat) FROM sink_consents

-- name: offer
-- Keep the digest of a callback's secret, with those of the last 63 attempts.
UPDATE sink_consents SET
    callbacks = (callbacks || $3::bytea)[greatest(1, cardinality(callbacks) - 62):]
WHERE subscription = $1 AND sinkorigin = $2 AND grantedat IS NULL
RETURNING subscription

-- name: grant
-- Note the consent of a sink.
UPDATE sink_consents SET
    grantedat = $3, requestorigin = $4, allowedrate = $5, askat = NULL, callbacks = '{}'
WHERE subscription = $1 AND sinkorigin = $2 AND grantedat IS NULL
RETURNING subscription

-- name: grant_by_callback
-- Note the consent of a sink that knows the secret of a callback.
UPDATE sink_consents SET
    grantedat = $3, requestorigin = $4, allowedrate = $5, askat = NULL, callbacks = '{}'
WHERE subscription = $1 AND $2::bytea = ANY (callbacks) AND grantedat IS NULL AND endsat > $3
RETURNING subscription

-- name: explain
-- Say why a subscription is pending, and when its sink is asked next.
UPDATE subscriptions SET reason = $2, nextattemptat = $3 WHERE id = $1 AND state = 'pending'

-- name: load
-- The consents that sinks have given to subscriptions.
SELECT subscription, grantedat, requestorigin, allowedrate FROM sink_consents
WHERE subscription = ANY ($1::text[]) AND grantedat IS NOT NULL

-- name: release
-- Let subscriptions that wait for a consent go on without one.
WITH released AS (DELETE FROM sink_consents WHERE grantedat IS NULL RETURNING subscription)
UPDATE subscriptions SET
    state = CASE WHEN pausereason IS NULL THEN 'active' ELSE 'paused' END,
    reason = pausereason, pausereason = NULL, nextattemptat = NULL,
    revision = nextval('subscriptions_revision')
FROM released WHERE id = subscription AND state = 'pending'

-- name: activate
-- Let a subscription that is pending go on, or be paused as was asked meanwhile.
UPDATE subscriptions SET
    state = CASE WHEN pausereason IS NULL THEN 'active' ELSE 'paused' END,
    reason = pausereason, pausereason = NULL, nextattemptat = NULL,
    revision = nextval('subscriptions_revision')
WHERE id = $1 AND state = 'pending'

-- name: give_up
-- End a subscription that is pending.
UPDATE subscriptions SET
    state = 'ended', reason = $2, pausereason = NULL, nextattemptat = NULL,
    revision = nextval('subscriptions_revision')
WHERE id = $1 AND state = 'pending'

-- name: announce
-- Tell the process that delivers which subscription changed.
SELECT pg_notify('subscriptions', $1)
