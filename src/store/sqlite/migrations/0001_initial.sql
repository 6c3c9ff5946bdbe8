-- usable_from: 1
-- The tables of a store. Times are milliseconds since 1970, ids are 16 bytes, and what is NULL was
-- not given. For people there are views at the end, which show ids in the usual form: as columns of
-- the tables, even virtual ones, they would be computed at every write and take half of its time.

-- One row a job: a fold of its events. What never changes is in its first event.
CREATE TABLE job_rows (
    job BLOB NOT NULL PRIMARY KEY,
    status INTEGER NOT NULL,
    version INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    queue TEXT,
    kind TEXT,
    priority INTEGER NOT NULL,
    reason_code INTEGER NOT NULL,
    purge_at INTEGER NOT NULL,
    redacted INTEGER NOT NULL,
    agent_id TEXT,
    correlation_id TEXT,
    idempotency_key TEXT,
    head BLOB NOT NULL,
    salt BLOB NOT NULL,
    cursor TEXT,
    goal TEXT,
    labels TEXT,
    state TEXT NOT NULL
) WITHOUT ROWID;

CREATE UNIQUE INDEX jobs_by_key ON job_rows (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_correlation ON job_rows (correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_by_agent ON job_rows (agent_id) WHERE agent_id IS NOT NULL;
-- Completed and cancelled jobs are the bulk, and found well enough by walking.
CREATE INDEX jobs_by_status ON job_rows (status) WHERE status NOT IN (2, 4);
CREATE INDEX jobs_to_purge ON job_rows (purge_at) WHERE purge_at > 0;

-- The truth. `position` is the place in the feed of all events, given out once and never again.
CREATE TABLE event_rows (
    position INTEGER PRIMARY KEY,
    job BLOB NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    redacted INTEGER NOT NULL,
    actor TEXT,
    cause TEXT,
    correlation_id TEXT,
    digest BLOB NOT NULL,
    hash BLOB NOT NULL,
    payload TEXT,
    UNIQUE (job, version)
);

CREATE INDEX job_events_by_type ON event_rows (type, created_at);
CREATE INDEX job_events_by_correlation ON event_rows (correlation_id)
    WHERE correlation_id IS NOT NULL;

-- The end of the feed, kept where the newest events are deleted; else it is the newest event's.
CREATE TABLE feed_end (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    position INTEGER NOT NULL
);
INSERT INTO feed_end VALUES (1, 0);

-- Live leases, on jobs (step -1) and steps. due_at is when the engine looks after it.
CREATE TABLE claim_rows (
    job BLOB NOT NULL,
    step INTEGER NOT NULL,
    worker_id TEXT,
    resource_id TEXT,
    attempt INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    progress TEXT,
    cursor TEXT,
    PRIMARY KEY (job, step)
) WITHOUT ROWID;

CREATE INDEX job_claims_due ON claim_rows (due_at) WHERE due_at > 0;
CREATE INDEX job_claims_on ON claim_rows (resource_id) WHERE resource_id IS NOT NULL;

-- Lanes by number; `key` says what may take work from them.
CREATE TABLE lanes (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE
);

-- Work that may be claimed now, in the order in which it is. rank is minus the priority.
CREATE TABLE ready (
    lane INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    job BLOB NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (lane, rank, run_at, job, step)
) WITHOUT ROWID;

-- Work that may be claimed later (kind 'work'), and when the engine looks after what nobody holds
-- (kind 'due').
CREATE TABLE timers (
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    job BLOB NOT NULL,
    step INTEGER NOT NULL,
    lane INTEGER,
    rank INTEGER,
    PRIMARY KEY (kind, at, job, step)
) WITHOUT ROWID;

-- Steps of plans, each with where it stands in ready, timers and job_claims.
CREATE TABLE job_steps (
    job BLOB NOT NULL,
    ordinal INTEGER NOT NULL,
    id TEXT,
    state_number INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    asking_key TEXT,
    state TEXT NOT NULL,
    plan TEXT NOT NULL,
    PRIMARY KEY (job, ordinal)
) WITHOUT ROWID;

CREATE INDEX job_steps_by_id ON job_steps (job, id);
CREATE INDEX job_steps_asking ON job_steps (job, asking_key) WHERE asking_key IS NOT NULL;

CREATE TABLE job_effects (
    job BLOB NOT NULL,
    name TEXT NOT NULL,
    step TEXT,
    key TEXT,
    version INTEGER NOT NULL,
    open INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (job, name)
) WITHOUT ROWID;

CREATE INDEX job_effects_open ON job_effects (job, step) WHERE open = 1;

CREATE TABLE job_signals (
    job BLOB NOT NULL,
    version INTEGER NOT NULL,
    correlation_key TEXT,
    signal_id TEXT,
    delivered INTEGER NOT NULL,
    payload TEXT,
    PRIMARY KEY (job, version)
) WITHOUT ROWID;

CREATE INDEX job_signals_by_key ON job_signals (job, correlation_key, version);
CREATE INDEX job_signals_stored ON job_signals (job, correlation_key, version)
    WHERE delivered = 0;
CREATE INDEX job_signals_by_id ON job_signals (job, signal_id) WHERE signal_id IS NOT NULL;

-- Heartbeats and the like, sampled, beside the stream, for a day.
CREATE TABLE job_telemetry (
    number INTEGER PRIMARY KEY,
    job BLOB NOT NULL,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    actor TEXT,
    cause TEXT,
    correlation_id TEXT,
    payload TEXT
);

CREATE INDEX job_telemetry_by_job ON job_telemetry (job, at);
CREATE INDEX job_telemetry_by_age ON job_telemetry (at);

-- Requests that may be sent again, with the answers they got.
CREATE TABLE requests (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    answer TEXT,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE INDEX requests_by_age ON requests (at);

CREATE TABLE resources (
    id TEXT NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX resources_by_end ON resources (expires_at);

-- What operators have set.
CREATE TABLE kinds (
    kind TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE queues (
    queue TEXT NOT NULL PRIMARY KEY,
    paused INTEGER NOT NULL
) WITHOUT ROWID;

-- What is left of jobs that were deleted.
CREATE TABLE purged (
    job BLOB NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    head BLOB NOT NULL
) WITHOUT ROWID;

-- The same for people.
CREATE VIEW jobs AS
SELECT lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                    substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS id,
    status, version, retry_count, created_at, updated_at, queue, kind, priority, reason_code,
    purge_at, redacted, agent_id, correlation_id, idempotency_key, head, salt, cursor, goal, labels,
    state, job
FROM job_rows;

-- The id of an event is made from its hash, as a UUID of version 8.
CREATE VIEW job_events AS
SELECT lower(printf('%.8s-%.4s-8%.3s-%s%.3s-%.12s', hex(hash), substr(hex(hash), 9),
                    substr(hex(hash), 14),
                    substr('89AB89AB89AB89AB',
                           instr('0123456789ABCDEF', substr(hex(hash), 17, 1)), 1),
                    substr(hex(hash), 18), substr(hex(hash), 21))) AS id,
    lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                 substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS job_id,
    version, type, created_at, redacted, actor, cause, correlation_id, digest, hash, payload,
    position, job
FROM event_rows;

CREATE VIEW job_claims AS
SELECT lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                    substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS job_id,
    step, worker_id, resource_id, attempt, expires_at, beat_at, due_at, progress, cursor, job
FROM claim_rows;
