-- name: wake
-- Give a subscription another revision, by which the process that delivers begins anew from
-- its row.
UPDATE subscriptions SET revision = nextval('subscriptions_revision') WHERE id = $1

-- name: announce
-- Tell the process that delivers which subscription changed.
SELECT pg_notify('subscriptions', $1)
