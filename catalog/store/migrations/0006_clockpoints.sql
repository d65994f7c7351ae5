-- The time that passes for what is kept for a time: no clock alone decides that something is old

-- A point of time, stored every hour while the node runs: the transaction id and the clock of the
-- database then, and how many seconds its nodes have measured since the first point. Where the clock
-- told another time since the point before than was counted, `jump` is the difference in seconds.
CREATE TABLE clock_points (
    txid bigint PRIMARY KEY DEFAULT (pg_current_xact_id()::text::bigint),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    measured double precision NOT NULL,
    jump double precision
);
