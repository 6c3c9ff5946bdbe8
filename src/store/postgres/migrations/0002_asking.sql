-- usable_from: 2
-- Jobs in which somebody is asked can be listed, and jobs counted by queue and status; tokens.

-- Whoever writes a job says whether it asks: a binary that does not know the column would not.
ALTER TABLE pawl.jobs ADD COLUMN asking boolean NOT NULL DEFAULT false;

-- Jobs that had been written before, this once by the same rule as job_asks in core. PostgreSQL
-- reads no JSON with \u0000 in it, so that is taken out first (and an escaped backslash before
-- such letters is not).
UPDATE pawl.jobs j SET asking = true
FROM (
    SELECT id, regexp_replace(state::text, '(\\\\)|\\u0000', '\1', 'g')::json AS state
    FROM pawl.jobs
    WHERE status NOT IN (2, 3, 4, 9) AND state::text ~ '"(wait|steps_asking)"'
) AS s
WHERE j.id = s.id
    AND (s.state #>> '{wait,type}' = 'human'
        OR (coalesce((s.state ->> 'steps_asking')::int8, 0) > 0
            AND NOT coalesce((s.state ->> 'replan')::bool, false)));

CREATE INDEX jobs_asking ON pawl.jobs (id) WHERE asking;

-- What is included is there to be counted by; and all jobs are, ended ones too.
DROP INDEX pawl.jobs_status;
CREATE INDEX jobs_status ON pawl.jobs (status, id) INCLUDE (queue, created_at);

-- When somebody last looked after the store: leases get no grace for a time in which it was.
CREATE TABLE pawl.attended (
    one boolean PRIMARY KEY CHECK (one),
    at int8 NOT NULL
);

-- Access tokens: what is kept is their SHA-256. A list of queues that is empty stands for all.
CREATE TABLE pawl.tokens (
    id uuid NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    scopes text NOT NULL,
    queues json NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_hash UNIQUE (hash)
);
