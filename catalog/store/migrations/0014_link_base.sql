-- The base of the URLs that a link's source gives out, as it said itself.

ALTER TABLE links ADD COLUMN base text COLLATE "C";
