-- The numbers of entities that the catalogs of a comparison had, by authority
ALTER TABLE reconciliations ADD COLUMN entities jsonb NOT NULL DEFAULT '{}';
