-- The last comparison of the digests of a link and its peer, and the origins that differed in it
ALTER TABLE links ADD COLUMN comparedat timestamptz, ADD COLUMN differing bigint;
