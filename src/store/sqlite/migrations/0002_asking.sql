-- usable_from: 2
-- Jobs in which somebody is asked can be listed, and jobs counted by queue and status; tokens.

-- Whoever writes a job says whether it asks: a binary that does not know the column would not.
ALTER TABLE job_rows ADD COLUMN asking INTEGER NOT NULL DEFAULT 0;

-- Jobs that had been written before, this once by the same rule as job_asks in core.
UPDATE job_rows SET asking = 1
WHERE status NOT IN (2, 3, 4, 9)
    AND (json_extract(state, '$.wait.type') IS 'human'
        OR (ifnull(json_extract(state, '$.steps_asking'), 0) > 0
            AND NOT ifnull(json_extract(state, '$.replan'), 0)));

CREATE INDEX jobs_asking ON job_rows (asking) WHERE asking = 1;

-- The columns behind the job are there to be counted by; and all jobs are, ended ones too.
DROP INDEX jobs_by_status;
CREATE INDEX jobs_by_status ON job_rows (status, job, queue, created_at);

DROP VIEW jobs;
CREATE VIEW jobs AS
SELECT lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                    substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS id,
    status, version, retry_count, created_at, updated_at, queue, kind, priority, reason_code,
    purge_at, redacted, asking, agent_id, correlation_id, idempotency_key, head, salt, cursor, goal,
    labels, state, job
FROM job_rows;

-- Access tokens: what is kept is their SHA-256. A list of queues that is empty stands for all.
CREATE TABLE tokens (
    id BLOB NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    queues TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL
) WITHOUT ROWID;
