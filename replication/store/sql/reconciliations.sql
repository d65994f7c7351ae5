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
-- All reports with the numbers of their kept findings, the latest first.
SELECT r.*, coalesce((
    SELECT max(number) + 1 FROM comparison_findings f WHERE f.run = r.run), 0) AS kept
FROM reconciliations r ORDER BY at DESC, run

-- name: find
-- A report with the number of its kept findings.
SELECT r.*, coalesce((
    SELECT max(number) + 1 FROM comparison_findings f WHERE f.run = r.run), 0) AS kept
FROM reconciliations r WHERE run = $1

-- name: note_compared
-- Keep the catalogs of a comparison; null if there is no such report.
UPDATE reconciliations SET compared = $2::jsonb WHERE run = $1 RETURNING run

-- name: add_findings
-- Keep findings with the numbers from $2 on, unless they are known.
INSERT INTO comparison_findings (run, number, finding, catalog, origin, content)
SELECT $1, $2 + f.position - 1, f.finding, f.catalog, f.origin, f.content
FROM unnest($3::text[], $4::text[], $5::text[], $6::jsonb[])
    WITH ORDINALITY AS f (finding, catalog, origin, content, position)
ON CONFLICT (run, number) DO NOTHING

-- name: page_findings
-- A page of the findings of a comparison that meet the conditions.
SELECT number, content FROM comparison_findings
WHERE run = $1 AND number > $2
    AND ($3::text IS NULL OR finding = $3)
    AND ($4::text IS NULL OR catalog = $4)
    AND ($5::text IS NULL OR origin = $5 OR starts_with(origin, rtrim($5, '/') || '/'))
ORDER BY number LIMIT $6

-- name: count_findings
-- How many findings of a comparison meet the conditions.
SELECT count(*) FROM comparison_findings
WHERE run = $1
    AND ($2::text IS NULL OR finding = $2)
    AND ($3::text IS NULL OR catalog = $3)
    AND ($4::text IS NULL OR origin = $4 OR starts_with(origin, rtrim($4, '/') || '/'))

-- name: find_finding
-- A finding of a comparison.
SELECT number, content FROM comparison_findings WHERE run = $1 AND number = $2
