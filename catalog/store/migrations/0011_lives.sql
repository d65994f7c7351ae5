-- A version that was deleted in an earlier life of its resource is of the past.

ALTER TABLE tombstones ADD COLUMN is_past boolean NOT NULL DEFAULT false;

UPDATE tombstones t SET is_past = true
FROM entities r
WHERE t.kind = 'version' AND r.kind = 'resource' AND t.authority = r.authority
    AND t.origin > r.origin || '/versions/' AND t.origin < r.origin || '/versions0'
    AND t.deletedat < r.createdat;
