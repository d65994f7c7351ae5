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

-- name: announce
-- Tell the process that delivers which subscription changed.
SELECT pg_notify('subscriptions', $1)
