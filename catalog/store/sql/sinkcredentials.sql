-- name: save
-- Store the credential of a subscription in place of the one that it had.
INSERT INTO sink_credentials (subscription, sealed, type, scheme, expiresat, endpoint, refreshat)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (subscription) DO UPDATE SET
    sealed = EXCLUDED.sealed, type = EXCLUDED.type, scheme = EXCLUDED.scheme,
    expiresat = EXCLUDED.expiresat, endpoint = EXCLUDED.endpoint, refreshat = EXCLUDED.refreshat,
    failures = 0, error = NULL, revision = nextval('subscriptions_revision')

-- name: remove
-- Delete the credential of a subscription.
DELETE FROM sink_credentials WHERE subscription = $1

-- name: load
-- The credentials of subscriptions.
SELECT * FROM sink_credentials WHERE subscription = ANY ($1::text[])
