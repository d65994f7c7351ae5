-- name: note
-- The row about a request, if its transaction has written anything: only then it has an id. With
-- $9, the row in any case.
INSERT INTO audit (at, outcome, kind, name, issuer, address, agent, method, path, targets, places)
SELECT now(), 'done', $1, $2, $3, $4, $5, $6, $7, $8::text[], $10::text[]
WHERE $9::boolean OR pg_current_xact_id_if_assigned() IS NOT NULL

-- name: note_refusals
-- Rows about attempts that were refused.
INSERT INTO audit (
    at, outcome, kind, name, issuer, address, agent, method, path, targets, status, reason,
    attempts)
SELECT r.at, 'refused', r.kind, r.name, r.issuer, r.address, r.agent, r.method, r.path, '{}',
    r.status, r.reason, r.attempts
FROM unnest(
    $1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::integer[], $10::text[], $11::integer[])
    AS r (at, kind, name, issuer, address, agent, method, path, status, reason, attempts)
ORDER BY r.at
