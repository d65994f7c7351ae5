-- name: last_incarnation
-- The last start of the node.
SELECT id FROM incarnations ORDER BY txid DESC LIMIT 1

-- name: incarnations
-- All starts of the node that are known.
SELECT id FROM incarnations

-- name: place
-- The last change up to a position, the beginning of the log, and the last start of the node.
SELECT c.*, n.dropped_txid, n.dropped_seq,
    (SELECT left(id::text, 8) FROM incarnations i ORDER BY i.txid DESC LIMIT 1) AS incarnation
FROM node n
LEFT JOIN LATERAL (
    SELECT txid, seq, interaction, at, xid, epoch, digest FROM public.changes
    WHERE (txid, seq) <= ($1, $2) ORDER BY txid DESC, seq DESC LIMIT 1
) AS c ON true

-- name: past
-- The same, with the incarnation whose id begins with $3: whether it is known, whether the one after
-- it began by the transaction $1, and whether those from before that transaction are all known.
SELECT c.*, n.dropped_txid, n.dropped_seq,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS now_txid,
    named.txid IS NOT NULL AS is_known,
    EXISTS (SELECT FROM incarnations i WHERE i.txid > named.txid AND i.txid <= $1) AS is_left,
    EXISTS (SELECT FROM incarnations i WHERE i.txid <= $1) AS is_listed
FROM node n
LEFT JOIN LATERAL (
    SELECT txid FROM incarnations WHERE left(id::text, 8) = $3 ORDER BY txid DESC LIMIT 1
) AS named ON true
LEFT JOIN LATERAL (
    SELECT txid, seq, interaction, at, xid, epoch, digest FROM public.changes
    WHERE (txid, seq) <= ($1, $2) ORDER BY txid DESC, seq DESC LIMIT 1
) AS c ON true
