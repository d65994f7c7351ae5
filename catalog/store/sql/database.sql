-- name: create
-- Store the identity of this node, unless it has one, and whether it awaits to recover.
WITH created AS (
    INSERT INTO node (instance, authority, modelsource, resolved, gate)
    VALUES ($1, $2, $3::json, $4::json, CASE WHEN $5::boolean THEN 'model' ELSE 'open' END)
    ON CONFLICT DO NOTHING
    RETURNING gate
)
INSERT INTO recovery (state, startedat) SELECT 'awaited', now() FROM created WHERE gate <> 'open'

-- name: read
-- The identity of this node.
SELECT instance, authority FROM node

-- name: is_log_from_elsewhere
-- Whether the log has transaction ids that this server has yet to assign.
SELECT EXISTS (
    SELECT FROM changes WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
) OR EXISTS (
    SELECT FROM subscription_events
    WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
) OR EXISTS (SELECT FROM audit WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)

-- name: note_losses
-- Note which subscriptions have yet to pass something in the logs, before these are deleted.
UPDATE subscriptions s SET lostat = now()
WHERE state IN ('pending', 'active', 'paused') AND CASE log
    WHEN 'changes' THEN EXISTS (
        SELECT FROM changes c WHERE (c.txid, c.seq) > (s.txid, s.seq))
    ELSE EXISTS (
        SELECT FROM subscription_events e WHERE (e.txid, e.seq) > (s.txid, s.seq)) END

-- name: forget_log
-- Delete both logs, and the contents that changes replaced: their positions could be assigned a second
-- time. The audit stays, and comes before all that follows.
WITH gone AS (DELETE FROM subscription_events), moved AS (UPDATE audit SET txid = 0),
    forgotten AS (DELETE FROM incarnations), unmeasured AS (DELETE FROM clock_points),
    unkept AS (DELETE FROM revisions)
DELETE FROM changes

-- name: renew_instance
-- Change the instance id, so that peers drop their cursors, and let the logs begin anew.
UPDATE node SET instance = $1, dropped_txid = 0, dropped_seq = 0,
    dropped_subscription_txid = 0, dropped_subscription_seq = 0,
    dropped_audit_txid = 0, dropped_audit_seq = 0,
    revisionsafter = CASE WHEN revisionsafter IS NOT NULL THEN 0 END

-- name: return_cursors
-- Let subscriptions whose cursors this server has yet to reach go on from now: they have passed all
-- that there is, and would miss what comes until the server is there.
UPDATE subscriptions SET txid = now.before, seq = 9223372036854775807
FROM (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS before,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
) AS now
WHERE subscriptions.txid >= now.next

-- name: move
-- Store in which database of which server this node is. If it was in another one, it was restored
-- from a backup there: peers drop their cursors by its other instance id.
UPDATE node SET
    instance = CASE WHEN node.home IS NULL THEN instance ELSE $1 END,
    home = here.home
FROM (
    SELECT concat_ws('/',
        (SELECT system_identifier FROM pg_control_system()),
        (SELECT oid FROM pg_database WHERE datname = current_database())) AS home
) AS here
WHERE node.home IS DISTINCT FROM here.home

-- name: begin_incarnation
-- Note that the node starts. What this server has yet to assign was noted by another server; of the
-- rest, the last thousand stay.
WITH begun AS (
    INSERT INTO incarnations DEFAULT VALUES RETURNING id
), gone AS (
    DELETE FROM incarnations
    WHERE txid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        OR txid < (SELECT txid FROM incarnations ORDER BY txid DESC OFFSET 999 LIMIT 1)
)
SELECT id FROM begun

-- name: server
-- When this server was started: another time is another server, or the same one after a restart.
SELECT pg_postmaster_start_time()

-- name: server_process
-- Which process of the server answers.
SELECT pg_backend_pid()

-- name: search_path
-- The schemas that the session looks for names in.
SHOW search_path

-- name: rollback
-- End the transaction of a user that was cancelled.
ROLLBACK

-- name: end_statement
-- End the transaction that the server began for a statement which was prepared, and never run.
SELECT 1

-- name: spill_soon
-- Have this transaction write what it sorts or collects to a temporary file early.
SET LOCAL work_mem = '64kB'

-- name: spill
-- Collect some 16 MB, which is what a segment of the server's log needs.
SELECT count(*) FROM generate_series(1, 1000000)
