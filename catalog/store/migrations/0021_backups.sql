-- When the catalog was backed up last

-- The moment that the last complete file of `concord backup` shows.
ALTER TABLE node ADD COLUMN backedupat timestamptz;
