-- name: save
-- Store the credential of a subscription in place of the one that it had.
INSERT INTO sink_credentials (subscription, sealed, type, scheme, expiresat, endpoint, refreshat)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (subscription) DO UPDATE SET
    sealed = EXCLUDED.sealed, type = EXCLUDED.type, scheme = EXCLUDED.scheme,
    expiresat = EXCLUDED.expiresat, endpoint = EXCLUDED.endpoint, refreshat = EXCLUDED.refreshat,
    isclaimed = false, earlyat = NULL, failures = 0, error = NULL, iswarned = false,
    revision = nextval('subscriptions_revision')

-- name: remove
-- Delete the credential of a subscription.
DELETE FROM sink_credentials WHERE subscription = $1

-- name: load
-- The credentials of subscriptions.
SELECT * FROM sink_credentials WHERE subscription = ANY ($1::text[])

-- name: claim
-- Claim the tokens that are due until a later time, those that never failed first, and no more
-- than so many of an endpoint.
WITH due AS (
    SELECT c.subscription, c.failures, c.refreshat,
        row_number() OVER (PARTITION BY c.endpoint ORDER BY c.failures, c.refreshat) AS place
    FROM sink_credentials c JOIN subscriptions s ON s.id = c.subscription
    WHERE c.refreshat <= $1 AND c.endpoint <> ALL ($3::text[])
        AND s.state IN ('pending', 'active', 'paused')
), chosen AS (
    SELECT subscription FROM due WHERE place <= $4 ORDER BY failures, refreshat LIMIT $5
)
UPDATE sink_credentials c SET refreshat = $2, isclaimed = true FROM chosen
WHERE c.subscription = chosen.subscription AND c.refreshat <= $1
RETURNING c.*

-- name: next_refresh
-- The time of the next refresh, at other endpoints than some.
SELECT c.refreshat FROM sink_credentials c JOIN subscriptions s ON s.id = c.subscription
WHERE c.refreshat IS NOT NULL AND c.endpoint <> ALL ($1::text[])
    AND s.state IN ('pending', 'active', 'paused')
ORDER BY c.refreshat LIMIT 1

-- name: refresh_early
-- Have tokens refreshed that were refused at a time, unless that is done, failed last, or was done
-- less than $4 before. A row that is locked is being refreshed.
WITH refused AS (
    SELECT c.subscription, r.at
    FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS r (subscription, revision, at)
    JOIN sink_credentials c USING (subscription, revision)
    WHERE c.refreshat > r.at AND NOT c.isclaimed AND c.failures = 0
        AND (c.earlyat IS NULL OR c.earlyat <= r.at - $4::interval)
    FOR UPDATE OF c SKIP LOCKED
), due AS (
    UPDATE sink_credentials c SET refreshat = r.at, earlyat = r.at FROM refused r
    WHERE c.subscription = r.subscription
    RETURNING c.subscription
)
SELECT pg_notify('subscriptions', subscription) FROM due

-- name: hold
-- Lock the subscription of a credential, as whoever replaces both does.
SELECT FROM subscriptions WHERE id = $1 FOR UPDATE

-- name: renew
-- Store refreshed tokens, unless another credential was stored meanwhile.
WITH renewed AS (
    UPDATE sink_credentials SET
        sealed = $3, scheme = $4, expiresat = $5, refreshat = $6, isclaimed = false,
        failures = 0, error = NULL, revision = nextval('subscriptions_revision')
    WHERE subscription = $1 AND revision = $2
    RETURNING subscription
), reopened AS (
    UPDATE subscriptions s SET revision = nextval('subscriptions_revision') FROM renewed
    WHERE s.id = renewed.subscription
    RETURNING s.id
)
SELECT pg_notify('subscriptions', id) IS NOT NULL FROM reopened

-- name: note_failure
-- Store why a refresh failed; a cause that is new reopens the sink, which tells it.
WITH before AS (
    SELECT error FROM sink_credentials WHERE subscription = $1 AND revision = $2
), failed AS (
    UPDATE sink_credentials SET
        failures = failures + 1, error = $3, refreshat = $4, isclaimed = false
    WHERE subscription = $1 AND revision = $2
), reopened AS (
    UPDATE subscriptions SET revision = nextval('subscriptions_revision') FROM before
    WHERE id = $1 AND before.error IS DISTINCT FROM $3
    RETURNING id
)
SELECT pg_notify('subscriptions', id) FROM reopened

-- name: warn
-- Log once of each access token that nothing refreshes that it ends before a time.
WITH ending AS (
    UPDATE sink_credentials c SET iswarned = true FROM subscriptions s
    WHERE s.id = c.subscription AND c.type = 'ACCESSTOKEN' AND NOT c.iswarned
        AND c.expiresat <= $1 AND s.state IN ('pending', 'active', 'paused')
    RETURNING c.subscription, c.expiresat, s.state, s.createdby
)
INSERT INTO subscription_events (subscription, action, createdby, data)
SELECT subscription, 'credentialexpiring', createdby, jsonb_build_object(
    'state', state,
    'accesstokenexpiresutc', to_char(expiresat AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
FROM ending
