-- name: add
-- A handover that begins; nothing if one of the group is under way.
INSERT INTO handovers (id, role, xid, peer, authority, state, startedat, sealed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (lower(xid) COLLATE "C") WHERE endedat IS NULL DO NOTHING
RETURNING *

-- name: forget_earlier
-- Forget the oldest handovers that have ended, beyond the last $1.
DELETE FROM handovers WHERE id IN (
    SELECT id FROM handovers WHERE endedat IS NOT NULL ORDER BY endedat DESC OFFSET $1)

-- name: count_open
-- The number of handovers that are under way.
SELECT count(*) FROM handovers WHERE endedat IS NULL

-- name: get
-- One handover.
SELECT * FROM handovers WHERE id = $1

-- name: lock
-- One handover, which nobody else changes until the transaction ends.
SELECT * FROM handovers WHERE id = $1 FOR UPDATE

-- name: find_taken
-- The handover for taking that has an id at the giver, or else the one under way of a group.
SELECT * FROM handovers
WHERE role = 'take' AND authority = $1
    AND (theirs = $2 AND state <> 'aborted' OR xid = $3 AND endedat IS NULL)
ORDER BY coalesce(theirs = $2, false) DESC LIMIT 1 FOR UPDATE

-- name: page
-- Handovers in the order of their ids, after one.
SELECT * FROM handovers WHERE id > $1 ORDER BY id LIMIT $2

-- name: due
-- The handovers that this node has to go on with now.
SELECT * FROM handovers
WHERE endedat IS NULL AND state <> 'consented' AND coalesce(nextattemptat <= $1, true)
ORDER BY startedat

-- name: next_due
-- The time at which a handover is to be tried again.
SELECT min(nextattemptat) FROM handovers WHERE endedat IS NULL AND state <> 'consented'

-- name: taken
-- The groups that are about to come.
SELECT xid, authority, state FROM handovers WHERE role = 'take' AND endedat IS NULL

-- name: given
-- The groups that were given to an authority, and that it may have lacked at $2 or later.
SELECT xid FROM handovers
WHERE role = 'give' AND authority = $1 AND (state = 'given' OR state = 'done' AND endedat >= $2)

-- name: move_on
-- Let a handover be in another state, after a success; one that ends forgets its credential.
UPDATE handovers SET
    state = $2, theirs = $3, floor = $4, entities = $5, endedat = $6,
    failures = 0, nextattemptat = NULL, error = $7,
    sealed = CASE WHEN $6::timestamptz IS NULL THEN sealed END
WHERE id = $1 RETURNING *

-- name: postpone
-- Note when a handover is tried again, unless it has gone on since.
UPDATE handovers SET failures = failures + 1, error = $3, nextattemptat = $4
WHERE id = $1 AND state = $2

-- name: hurry
-- Try a handover again now.
UPDATE handovers SET nextattemptat = NULL, error = NULL WHERE id = $1

-- name: announce
-- Wake the process that hands over.
SELECT pg_notify('handovers', '')

-- name: read_floor
-- The highest epoch of deleted entities of an authority at or below a path; '0' follows '/'.
SELECT coalesce(max(epoch), 0) FROM tombstones
WHERE authority = $1 AND (origin = $2 OR origin > $2 || '/' AND origin < $2 || '0')

-- name: load_deleted
-- What an authority has deleted below a path; '0' follows '/'.
SELECT * FROM tombstones
WHERE authority = $1 AND origin > $2 || '/' AND origin < $2 || '0' ORDER BY origin

-- name: add_copies
-- Lines for the taker of a group, after those before.
INSERT INTO handover_copies (handover, number, line)
SELECT $1, $2 + l.number, l.line
FROM unnest($3::bytea[]) WITH ORDINALITY AS l (line, number)

-- name: copies
-- The lines for the taker of a group.
SELECT line FROM handover_copies WHERE handover = $1 ORDER BY number

-- name: drop_copies
-- Lines that the taker has.
DELETE FROM handover_copies WHERE handover = $1

-- name: leave_sets
-- What is given is no longer in a set of applied documents; '0' follows '/'.
DELETE FROM set_members WHERE xid = $1 OR xid > $1 || '/' AND xid < $1 || '0'
