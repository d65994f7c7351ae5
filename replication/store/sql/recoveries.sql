-- name: set_gate
-- Open or close the gate of the node; the caller has locked the whole catalog.
UPDATE node SET gate = $1

-- name: forget
-- Forget the recovery before, with all that it has noted.
WITH choices AS (DELETE FROM recovery_choices), sources AS (DELETE FROM recovery_sources)
DELETE FROM recovery

-- name: begin
-- A recovery from sources.
WITH sources AS (
    INSERT INTO recovery_sources (url, sealed)
    SELECT url, sealed
    FROM unnest($1::text[], $6::bytea[]) WITH ORDINALITY AS s (url, sealed, place) ORDER BY place
)
INSERT INTO recovery (state, startedat, named, unsigned, allowed)
VALUES ('reading', $2, $3, $4, $5)

-- name: read
-- The recovery, with the authority and the gate of the node, and the numbers of choices by state and
-- of those that had rivals. Once it has ended, the choices that were taken or kept are forgotten.
SELECT n.authority, n.gate AS writes, r.state, r.startedat, r.endedat, r.failures, r.nextattemptat,
    r.error, r.named, r.unsigned AS is_unsigned_taken, r.keys, r.allowed,
    c.wanted, c.partial, c.refused, c.buried, c.diverged,
    CASE WHEN r.endedat IS NULL THEN c.taken ELSE r.taken END AS taken,
    CASE WHEN r.endedat IS NULL THEN c.kept ELSE r.kept END AS kept
FROM recovery r, node n, (
    SELECT
        count(*) FILTER (WHERE state = 'wanted') AS wanted,
        count(*) FILTER (WHERE state = 'taken') AS taken,
        count(*) FILTER (WHERE state = 'kept') AS kept,
        count(*) FILTER (WHERE state = 'partial') AS partial,
        count(*) FILTER (WHERE state = 'refused') AS refused,
        count(*) FILTER (WHERE state = 'buried') AS buried,
        count(*) FILTER (WHERE rivals > 1) AS diverged
    FROM recovery_choices
) AS c

-- name: sources
-- The sources of the recovery.
SELECT number, url, instance, origins AS differing, unproven, isread, sealed
FROM recovery_sources ORDER BY number

-- name: move_on
-- Let the recovery that was started at a time be in another state, after a success.
UPDATE recovery SET state = $2, failures = 0, nextattemptat = NULL, error = NULL
WHERE startedat = $1 RETURNING true

-- name: end
-- End the recovery that was started at a time. Of what was taken and kept, the numbers are kept,
-- and what had rivals. Credentials are forgotten.
WITH copies AS (
    DELETE FROM recovery_copies
), sources AS (
    UPDATE recovery_sources SET sealed = NULL
), choices AS (
    DELETE FROM recovery_choices WHERE state IN ('wanted', 'taken', 'kept') AND rivals = 1
)
UPDATE recovery SET
    state = $2, endedat = $3, failures = 0, nextattemptat = NULL, error = NULL,
    taken = (SELECT count(*) FROM recovery_choices WHERE state = 'taken'),
    kept = (SELECT count(*) FROM recovery_choices WHERE state = 'kept')
WHERE startedat = $1 RETURNING true

-- name: note_keys
-- Note by which keys of this authority copies have to be signed.
UPDATE recovery SET keys = $2 WHERE startedat = $1

-- name: allow
-- Let the recovery delete so many entities.
UPDATE recovery SET allowed = $2 WHERE startedat = $1

-- name: ask
-- Let the recovery wait for an operator, with a question.
UPDATE recovery SET state = 'asking', error = $2 WHERE startedat = $1 RETURNING true

-- name: fail
-- Note a failure of the recovery that was started at a time.
UPDATE recovery SET failures = failures + 1, error = $2, nextattemptat = $3 WHERE startedat = $1

-- name: meet
-- A source is to be read, from its beginning.
WITH earlier AS (DELETE FROM recovery_copies WHERE source = $1)
UPDATE recovery_sources SET instance = $2, origins = 0, unproven = 0 WHERE number = $1

-- name: add_copies
-- Copies of a source that differ from what is here.
INSERT INTO recovery_copies (origin, source, epoch, deleted, digest)
SELECT c.origin, $1, c.epoch, c.deleted, c.digest
FROM unnest($2::text[], $3::bigint[], $4::boolean[], $5::bytea[])
    AS c (origin, epoch, deleted, digest)

-- name: count_copies
-- Note how much of a source was read, and whether that is all.
UPDATE recovery_sources SET origins = origins + $2, isread = $3 WHERE number = $1

-- name: change_copies
-- Copies that a source has now, in place of those that it announced.
UPDATE recovery_copies r SET epoch = c.epoch, deleted = c.deleted, digest = c.digest
FROM unnest($2::text[], $3::bigint[], $4::boolean[], $5::bytea[])
    AS c (origin, epoch, deleted, digest)
WHERE r.source = $1 AND r.origin = c.origin

-- name: spoil_copies
-- Copies that a source announced, and did not send as it should.
UPDATE recovery_copies SET isspoilt = true WHERE source = $1 AND origin = ANY ($2::text[])

-- name: doubt_copies
-- Copies of a source that are not proven to be this authority's, with the reasons.
WITH doubted AS (
    UPDATE recovery_copies r SET fault = c.fault
    FROM unnest($2::text[], $3::text[]) AS c (origin, fault)
    WHERE r.source = $1 AND r.origin = c.origin
)
UPDATE recovery_sources SET unproven = unproven + cardinality($2::text[]) WHERE number = $1

-- name: forget_choices
-- Choose again of these origins.
DELETE FROM recovery_choices WHERE origin = ANY ($1::text[])

-- name: choose
-- Choose a copy of each origin for which none is chosen: the one of the highest epoch, of these the
-- one that most catalogs have, this one included, of these the one with the greatest digest. A
-- source that said nothing of an origin has the copy that is here. A copy that is not proven comes
-- after all others, and is refused.
WITH here AS (
    SELECT origin, epoch, false AS deleted, digest FROM entities
    WHERE authority = $1 AND kind <> 'registry'
    UNION ALL
    SELECT origin, epoch, true, digest FROM tombstones WHERE authority = $1
), open AS (
    SELECT c.* FROM recovery_copies c
    WHERE NOT EXISTS (SELECT FROM recovery_choices r WHERE r.origin = c.origin)
), held AS (
    SELECT origin, epoch, deleted, digest, count(*) AS votes, false AS ishere,
        CASE WHEN bool_and(fault IS NOT NULL) THEN min(fault) END AS fault
    FROM open WHERE epoch IS NOT NULL
    GROUP BY origin, epoch, deleted, digest
    UNION ALL
    SELECT h.origin, h.epoch, h.deleted, h.digest,
        1 + (SELECT count(*) FROM recovery_sources) - told.number, true, NULL
    FROM here h
    JOIN (SELECT origin, count(*) AS number FROM open GROUP BY origin) AS told USING (origin)
), merged AS (
    SELECT origin, epoch, deleted, digest, sum(votes) AS votes, bool_or(ishere) AS ishere,
        CASE WHEN bool_and(fault IS NOT NULL) THEN min(fault) END AS fault
    FROM held GROUP BY origin, epoch, deleted, digest
), ordered AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY origin
            ORDER BY fault IS NOT NULL, epoch DESC, votes DESC, digest DESC) AS place,
        count(*) OVER (PARTITION BY origin, epoch, fault IS NOT NULL) AS rivals
    FROM merged
)
INSERT INTO recovery_choices
    (origin, epoch, deleted, digest, rank, votes, rivals, state, detail)
SELECT origin, epoch, deleted, digest,
    CASE WHEN deleted THEN -1 ELSE 1 END * (length(origin) - length(replace(origin, '/', ''))),
    votes, rivals,
    CASE WHEN fault IS NOT NULL THEN 'refused' WHEN ishere THEN 'kept' ELSE 'wanted' END,
    coalesce(fault, '')
FROM ordered WHERE place = 1

-- name: count_removals
-- Note how many entities of an authority each deletion that was chosen removes. Each counts with the
-- highest deleted entity above it.
UPDATE recovery_choices r SET removes = removed.number
FROM (
    SELECT d.origin, count(*) AS number
    FROM entities e
    CROSS JOIN LATERAL (
        SELECT regexp_replace(e.origin, '/[^/]+/[^/]+$', '') AS parent
    ) AS p
    CROSS JOIN LATERAL (
        SELECT c.origin FROM recovery_choices c
        WHERE c.deleted AND c.state = 'wanted' AND c.origin IN (
            e.origin, p.parent, regexp_replace(p.parent, '/[^/]+/[^/]+$', ''))
        ORDER BY length(c.origin) LIMIT 1
    ) AS d
    WHERE e.authority = $1 AND e.kind <> 'registry'
        AND EXISTS (SELECT FROM recovery_choices WHERE deleted AND state = 'wanted')
    GROUP BY d.origin
) AS removed
WHERE r.origin = removed.origin

-- name: removals
-- The entities that were removed, those that are about to be, and all that are here.
SELECT
    coalesce(sum(removes) FILTER (WHERE state <> 'wanted'), 0)::bigint AS removed,
    coalesce(sum(removes) FILTER (WHERE state = 'wanted'), 0)::bigint AS about,
    (SELECT count(*) FROM entities WHERE authority = $1 AND kind <> 'registry') AS held
FROM recovery_choices

-- name: next_wanted
-- The copies to take next, of one rank, each with a source that has it, if one is left.
SELECT w.origin, w.epoch, w.digest, (
    SELECT min(c.source) FROM recovery_copies c
    WHERE c.origin = w.origin AND c.epoch = w.epoch AND c.digest = w.digest
        AND NOT c.isspoilt AND c.fault IS NULL
) AS source
FROM recovery_choices w
WHERE w.state = 'wanted'
    AND w.rank = (SELECT min(rank) FROM recovery_choices WHERE state = 'wanted')
ORDER BY w.origin LIMIT $1

-- name: settle
-- What became of the copies that were chosen.
UPDATE recovery_choices r SET state = s.state, detail = s.detail
FROM unnest($1::text[], $2::text[], $3::text[]) AS s (origin, state, detail)
WHERE r.origin = s.origin

-- name: orphans
-- Entities that are not here, since something above them was deleted, and their epochs. A source
-- that had not heard of all that was deleted had them; they left no tombstone, or an earlier one.
SELECT r.origin, r.epoch FROM recovery_choices r
CROSS JOIN LATERAL (
    SELECT regexp_replace(r.origin, '/[^/]+/[^/]+$', '') AS parent
) AS p
WHERE NOT r.deleted AND r.state <> 'buried' AND r.state <> 'wanted'
    AND NOT EXISTS (SELECT FROM entities e WHERE e.authority = $1 AND e.origin = r.origin)
    AND EXISTS (
        SELECT FROM tombstones t WHERE t.authority = $1
            AND t.origin IN (p.parent, regexp_replace(p.parent, '/[^/]+/[^/]+$', '')))
ORDER BY r.origin LIMIT $2

-- name: note_partial
-- Resources that were taken, and whose default versions no source has.
UPDATE recovery_choices r SET state = 'partial', detail = 'no source has its default version'
FROM entities e
WHERE r.state = 'taken' AND e.authority = $1 AND e.origin = r.origin AND e.kind = 'resource'
    AND NOT e.attributes ? 'xref'
    AND NOT EXISTS (
        SELECT FROM entities v
        WHERE v.xid = e.xid || '/versions/' || (e.attributes ->> 'defaultversionid'))

-- name: refused
-- What cannot be taken, and its epochs.
SELECT origin, epoch FROM recovery_choices WHERE state = 'refused' ORDER BY origin LIMIT $1

-- name: try_again
-- Choose again of what could not be taken, and believe sources again.
WITH refused AS (DELETE FROM recovery_choices WHERE state = 'refused')
UPDATE recovery_copies SET isspoilt = false, fault = NULL WHERE isspoilt OR fault IS NOT NULL

-- name: findings
-- What an operator should see, in pages: what was refused or buried, and what had rivals.
SELECT origin, epoch, deleted, votes, rivals, state, detail FROM recovery_choices
WHERE (state IN ('partial', 'refused', 'buried') OR rivals > 1) AND origin > $1
ORDER BY origin LIMIT $2

-- name: announce
-- Tell the process that runs the links that the recovery was changed.
SELECT pg_notify('recovery', '')
