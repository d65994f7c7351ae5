-- The time since which a request renews the tokens of a session: a provider takes a refresh token once.
ALTER TABLE console_sessions ADD COLUMN renewingat timestamptz;
