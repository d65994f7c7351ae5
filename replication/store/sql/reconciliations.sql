-- name: add
-- Keep a report, unless it is known, and forget the oldest of its outcome beyond $11.
WITH older AS (
    DELETE FROM reconciliations WHERE run IN (
        SELECT run FROM reconciliations WHERE outcome = $4 ORDER BY at DESC, run OFFSET $11 - 1)
)
INSERT INTO reconciliations (
    run, startedat, endedat, outcome, name, catalogs, findings, unverifiable, repaired, error,
    entities)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8, $9, $10, $12::jsonb)
ON CONFLICT (run) DO NOTHING

-- name: list
-- All reports, the latest first.
SELECT * FROM reconciliations ORDER BY at DESC, run
