-- name: take_over
-- Become the one process of this node that has a role, for as long as the connection lives.
SELECT pg_try_advisory_lock(hashtextextended('concord ' || $1, 0))

-- name: step_down
-- Let another process have the role.
SELECT pg_advisory_unlock(hashtextextended('concord ' || $1, 0))

-- name: heartbeat
-- Find out whether the connection that holds the lock still lives.
SELECT 1
