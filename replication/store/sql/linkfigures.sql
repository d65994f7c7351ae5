-- name: note
-- Store a point of the present minute and one of the present hour for each link, and drop the
-- points that are older than $1 or $2. A link that is current has no lag, other than one whose
-- source has told nothing for two minutes: it ought to tell every half minute.
WITH present AS (
    SELECT id, applied,
        (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(errors)) AS errors,
        CASE WHEN state = 'current' AND (
                definition ->> 'mode' NOT IN ('accept', 'kafka')
                OR currentat > now() - interval '2 minutes'
            ) THEN 0
            ELSE greatest(0, extract(epoch FROM now() - currentat)) END::real AS lag
    FROM links
), noted AS (
    INSERT INTO link_figures (link, step, at, lag, copies, errors)
    SELECT id, step, date_bin(make_interval(secs => step), now(), timestamptz 'epoch'), lag,
        applied, errors
    FROM present CROSS JOIN (VALUES (60), (3600)) AS steps (step)
    ON CONFLICT (link, step, at) DO UPDATE SET
        lag = greatest(link_figures.lag, excluded.lag),
        copies = excluded.copies, errors = excluded.errors
)
DELETE FROM link_figures f
USING links l CROSS JOIN (VALUES (60, $1::interval), (3600, $2::interval)) AS kept (step, age)
WHERE f.link = l.id AND f.step = kept.step AND f.at < now() - kept.age

-- name: read
-- The points of a link at a step since a time, oldest first.
SELECT at, lag, copies, errors FROM link_figures
WHERE link = $1 AND step = $2 AND at >= $3 ORDER BY at
