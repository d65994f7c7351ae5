-- name: read
-- How far this node is: its configuration, the last change that was committed, the transaction that
-- begins next. Each row has one of the links whose sources are instances with an id that begins with
-- one of $1, or are not known yet; or it has none.
SELECT n.revision, newest.txid, newest.seq,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_txid,
    l.id, left(l.instance::text, 8) AS instance, coalesce(l.definition ->> 'source', '') AS source, l.cursor,
    l.state
FROM node n
LEFT JOIN LATERAL (
    SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1
) AS newest ON true
LEFT JOIN links l ON l.instance IS NULL OR left(l.instance::text, 8) = ANY ($1::text[])
ORDER BY l.id
