-- The past of the change log, by which a reader tells whether the log still goes on from a cursor

-- Each start of a node, by the transaction that noted it: no position that was given out before has
-- a transaction id as high. Cursors name the last one. So a log that went back to an earlier state
-- can be told from the one that a cursor is of: an incarnation is missing, or another one began
-- before the cursor. The last thousand are kept.
CREATE TABLE incarnations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    txid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    startedat timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX incarnations_txid ON incarnations (txid);

-- The reason why the source of a link may lack what the link has brought, until the link has
-- compared or copied everything again; null if the source has lost nothing.
ALTER TABLE links ADD COLUMN loss text;

-- A server that was promoted goes on with the same log on a new timeline: incarnations tell whether
-- it has all of that.
UPDATE node SET home = regexp_replace(home, '/[0-9A-F]{8}/', '/');
