-- name: lock_and_load
-- Lock what an interaction touches, then read it; the patience has to be known by then.
SELECT (entity).*, is_referred, has_lived, signing_key
FROM set_config('lock_timeout', $7, true) AS patience
CROSS JOIN LATERAL lock_and_load($1, $2, $3, $4, $5, CASE WHEN patience <> '' THEN $6::bigint END,
    $8)

-- name: is_awaited
-- Whether another transaction waits for an advisory lock that this one holds.
SELECT EXISTS (
    SELECT FROM pg_locks w
    JOIN pg_locks h USING (locktype, database, classid, objid, objsubid)
    WHERE w.locktype = 'advisory' AND NOT w.granted AND h.granted AND h.pid = pg_backend_pid()
)

-- name: lock_groups
-- Lock groups exclusive, and the registry if $2, or the whole catalog if $3; keys in ascending
-- order, as `lock_and_load` takes them.
SELECT CASE WHEN ordered.exclusive
    THEN pg_advisory_xact_lock(ordered.key) ELSE pg_advisory_xact_lock_shared(ordered.key) END
FROM (
    SELECT key, bool_or(exclusive) AS exclusive
    FROM (
        SELECT hashtextextended('catalog', 0) AS key, $3::boolean AS exclusive
        UNION ALL
        SELECT hashtextextended('/', 0), true WHERE $2::boolean AND NOT $3
        UNION ALL
        SELECT hashtextextended(xid, 0), true FROM unnest($1::text[]) AS xid WHERE NOT $3
    ) AS wanted
    GROUP BY key
    ORDER BY key
    OFFSET 0
) AS ordered

-- name: read_state
-- What a write of groups is planned under: the snapshot and the node, with one of the groups that
-- are reserved to come by a handover.
SELECT pg_current_snapshot()::text AS snapshot,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest,
    n.revision, n.gate, n.signingkey, reserved.xid AS reserved, reserved.authority
FROM node n
LEFT JOIN LATERAL (
    SELECT h.xid, h.authority FROM unnest($1::text[]) AS g (xid)
    JOIN handovers h ON lower(h.xid) COLLATE "C" = lower(g.xid) AND h.endedat IS NULL
    WHERE h.role = 'take'
        AND (h.state = 'promised' OR NOT EXISTS (SELECT FROM entities e WHERE e.xid = h.xid))
    LIMIT 1
) AS reserved ON true

-- name: load_touched
-- The registry, groups and resources by xid, and the versions of the resources.
SELECT * FROM entities WHERE xid = ANY ($1::text[] || $2::text[] || ARRAY['/'])
UNION ALL
SELECT * FROM entities
WHERE collection = ANY (ARRAY(SELECT r || '/versions' FROM unnest($2::text[]) AS r))

-- name: find_changed
-- The registry, groups and resources that were changed, themselves or in their versions, by
-- transactions that the snapshot $2, whose oldest is $1, does not show: those of $3, those in the
-- groups $4, and those that refer to one of $3; at most $5. One row without a path if there are
-- none. Where the log does not reach back so far, `is_lost`.
SELECT n.dropped_txid >= $1 AS is_lost, found.path
FROM node n
LEFT JOIN LATERAL (
    SELECT DISTINCT place.path
    FROM changes c
    CROSS JOIN LATERAL (
        SELECT array_to_string((string_to_array(c.xid, '/'))[1:5], '/') AS path,
            array_to_string((string_to_array(c.xid, '/'))[1:3], '/') AS group_path
    ) AS place
    LEFT JOIN entities e ON c.kind = 'resource' AND e.xid = c.xid
    WHERE c.txid >= $1
        AND NOT pg_visible_in_snapshot(c.txid::text::xid8, $2::text::pg_snapshot)
        AND (
            place.path IN (SELECT unnest($3::text[]))
            OR place.group_path IN (SELECT unnest($4::text[]))
            OR e.attributes ->> 'xref' IN (SELECT unnest($3::text[]))
        )
    LIMIT $5
) AS found ON true
