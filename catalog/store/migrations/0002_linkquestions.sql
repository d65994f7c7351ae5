-- Links that stop before they lose much ask one question, about a list of entities.
--
-- A link that waited to be allowed a number of deletions goes on, and asks again if it has to.

DROP VIEW bringing_links;

ALTER TABLE links DROP CONSTRAINT links_state_check;
UPDATE links SET
    brake = NULL,
    error = NULL,
    state = CASE WHEN state <> 'braked' THEN state WHEN cursor IS NULL THEN 'new' ELSE 'behind' END
WHERE brake IS NOT NULL OR state = 'braked';
ALTER TABLE links ADD CONSTRAINT links_state_check
    CHECK (state IN (
        'new', 'copying', 'behind', 'current', 'waiting', 'unauthenticated', 'forbidden',
        'refused', 'asking', 'paused'));

-- `question` is what a link asks an operator before it goes on: how many entities it would lose, of
-- how many, the first of them and a digest of all.
ALTER TABLE links RENAME COLUMN brake TO question;

CREATE VIEW bringing_links AS SELECT * FROM links
    WHERE definition ->> 'mode' NOT IN ('push', 'publish', 'write');

-- The entities that a link loses by what its source lacks, or deletes after it has lost data:
-- `gone` are deleted, `asked` in question, and an operator has `allowed` the others to go. The rows
-- of a link are deleted once it has caught up with its source.
DROP TABLE link_deletions;
CREATE TABLE link_losses (
    link text NOT NULL REFERENCES links (id) ON DELETE CASCADE,
    authority text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('gone', 'asked', 'allowed')),
    PRIMARY KEY (link, authority, origin)
);

-- A doubted copy that is not `overruled` is only looked for: what its authority sends replaces it by
-- epochs, as ever, and it stays where its authority does not have it.
ALTER TABLE doubted_copies ADD COLUMN overruled boolean NOT NULL DEFAULT true;
