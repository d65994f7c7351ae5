-- Sessions of the console (catalog/console/sessions.py): the token of a session is encrypted by a key
-- that only the cookie of the session has, so that the row alone opens nothing.
CREATE TABLE console_sessions (
    digest bytea PRIMARY KEY,
    token bytea NOT NULL,
    createdat timestamptz NOT NULL,
    usedat timestamptz NOT NULL
);

CREATE INDEX console_sessions_use ON console_sessions (usedat);
