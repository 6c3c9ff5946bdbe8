-- usable_from: 7
-- Every batch writes the same tables, and as few rows of them as can be: see README.md. A job's row
-- is written once, when it is made; what changes is in state_rows, or in claim_rows while it is
-- leased. Events are packed: what a job gains in one commit is added to one text.

DROP VIEW jobs;
DROP VIEW job_events;
DROP VIEW job_claims;
ALTER TABLE job_rows RENAME TO old_jobs;
ALTER TABLE event_rows RENAME TO old_events;
ALTER TABLE claim_rows RENAME TO old_claims;
DROP INDEX jobs_by_key;
DROP INDEX jobs_by_correlation;
DROP INDEX jobs_by_agent;

-- One row a job, as it was made. `created` is its first event. An event is a JSON array: version,
-- type, time, actor, cause, correlation_id, payload and, once the payload was erased, its digest.
-- status and state count until there is a row in state_rows or claim_rows.
CREATE TABLE job_rows (
    no INTEGER PRIMARY KEY,
    job BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    status INTEGER NOT NULL,
    redacted INTEGER NOT NULL,
    queue TEXT,
    kind TEXT,
    agent_id TEXT,
    correlation_id TEXT,
    idempotency_key TEXT,
    salt BLOB NOT NULL,
    hash BLOB NOT NULL,
    state BLOB NOT NULL,
    created TEXT NOT NULL
);

CREATE UNIQUE INDEX jobs_by_key ON job_rows (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_correlation ON job_rows (correlation_id, job)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_by_agent ON job_rows (agent_id, job) WHERE agent_id IS NOT NULL;

-- A job after its first claim, while nobody holds it; or from the start, if it is in no lane then.
-- While there is a row in claim_rows too, that one counts, and this one has only older events.
-- `record` has events, each with a comma before it, and `hashes` 32 bytes for each. `job` is there for
-- the indexes below, and NULL for jobs that are in none. `effects` has all effects of the job, or is
-- NULL: they are in job_effects.
CREATE TABLE state_rows (
    no INTEGER PRIMARY KEY,
    job BLOB,
    status INTEGER NOT NULL,
    version INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    purge_at INTEGER NOT NULL,
    reason_code INTEGER NOT NULL,
    asking INTEGER NOT NULL,
    cursor TEXT,
    state BLOB NOT NULL,
    hashes BLOB NOT NULL,
    record TEXT NOT NULL,
    effects BLOB
);

-- Completed and cancelled jobs are the bulk, and found well enough by walking.
CREATE INDEX states_by_status ON state_rows (status, job) WHERE status <> 2 AND status <> 4;
CREATE INDEX states_asking ON state_rows (job) WHERE asking = 1;
CREATE INDEX states_to_purge ON state_rows (purge_at) WHERE purge_at > 0;

-- Live leases on jobs, and the jobs as they are meanwhile. due_at is when the engine looks after
-- the lease.
CREATE TABLE claim_rows (
    no INTEGER PRIMARY KEY,
    job BLOB NOT NULL,
    status INTEGER NOT NULL,
    version INTEGER NOT NULL,
    retry_count INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    reason_code INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    worker_id TEXT,
    progress TEXT,
    cursor TEXT,
    state BLOB NOT NULL,
    hashes BLOB NOT NULL,
    record TEXT NOT NULL,
    effects BLOB
);

-- Live leases on steps.
CREATE TABLE step_claims (
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
CREATE INDEX step_claims_due ON step_claims (due_at) WHERE due_at > 0;
CREATE INDEX step_claims_on ON step_claims (resource_id) WHERE resource_id IS NOT NULL;

-- Events that have no room in a record any more; `first` is the version of the first.
CREATE TABLE history (
    no INTEGER NOT NULL,
    first INTEGER NOT NULL,
    hashes BLOB NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (no, first)
);

-- How many jobs there were when the feed ended with feed_end.counted. Rows of the feed after that say
-- what has changed since.
CREATE TABLE job_counts (
    queue TEXT NOT NULL,
    status INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, status)
) WITHOUT ROWID;

-- One row a batch. `jobs` is a JSON array of four numbers for each row of jobs whose events it has:
-- the no of the first, how many jobs follow each other, the version of the first event of each, and
-- how many events each has. `counts` is one of a queue, followed by statuses and by how many jobs more
-- have them than before, and so on. `position` is given out once and never again.
CREATE TABLE feed (
    position INTEGER PRIMARY KEY,
    jobs TEXT NOT NULL,
    counts TEXT
);
ALTER TABLE feed_end ADD COLUMN no INTEGER NOT NULL DEFAULT 0;
ALTER TABLE feed_end ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;

-- Whether heartbeats may be in the memory of the owner alone, and up to when some were lost in one
-- that was killed.
CREATE TABLE beats (unsaved INTEGER NOT NULL, lost_until INTEGER NOT NULL);
INSERT INTO beats (unsaved, lost_until) VALUES (0, 0);

-- Requests are found by their keys alone, so that one takes a single entry. Old ones are looked for
-- by a walk over all of them, a part at a time. Records are short since 0.2.0.
CREATE TABLE requests_by_key (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    answer TEXT,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

-- ---- what there was ----

INSERT INTO requests_by_key (scope, key, at, body_hash, answer)
    SELECT scope, key, at, body_hash, answer FROM requests ORDER BY scope, key;
DROP TABLE requests;
ALTER TABLE requests_by_key RENAME TO requests;

CREATE TABLE old_texts AS
SELECT e.job, e.version, e.position, e.hash,
    '[' || e.version || ',' || json_quote(e.type) || ',' || e.created_at || ','
        || json_quote(e.actor) || ',' || json_quote(e.cause) || ','
        || json_quote(e.correlation_id) || ',' || ifnull(e.payload, 'null')
        || CASE WHEN e.redacted THEN ',"' || lower(hex(e.digest)) || '"' ELSE '' END
        || ']' AS text
FROM old_events e;
CREATE INDEX old_texts_by_job ON old_texts (job, version);

INSERT INTO job_rows (job, created_at, priority, status, redacted, queue, kind, agent_id,
    correlation_id, idempotency_key, salt, hash, state, created)
SELECT j.job, j.created_at, j.priority, j.status, j.redacted, j.queue, j.kind, j.agent_id,
    j.correlation_id, j.idempotency_key, j.salt, t.hash, j.state, t.text
FROM old_jobs j JOIN old_texts t ON t.job = j.job AND t.version = 1 ORDER BY j.job;

-- 32 events a part, all but the last of which are history.
CREATE TABLE old_parts AS
SELECT j.no, min(t.version) AS first, max(t.version) AS last,
    CAST(group_concat(CAST(t.hash AS TEXT), '') AS BLOB) AS hashes,
    group_concat(',' || t.text, '') AS record
FROM job_rows j JOIN (SELECT * FROM old_texts ORDER BY job, version) t ON t.job = j.job
WHERE t.version > 1 GROUP BY j.no, (t.version - 2) / 32;
CREATE INDEX old_parts_by_no ON old_parts (no, last);

INSERT INTO history (no, first, hashes, record)
SELECT p.no, p.first, p.hashes, p.record FROM old_parts p
WHERE p.last < (SELECT max(q.last) FROM old_parts q WHERE q.no = p.no);

INSERT INTO state_rows (no, job, status, version, retry_count, updated_at, purge_at, reason_code,
    asking, cursor, state, hashes, record)
SELECT j.no, CASE WHEN o.status NOT IN (2, 4) THEN o.job END, o.status, o.version, o.retry_count,
    o.updated_at, o.purge_at, o.reason_code, o.asking, o.cursor, o.state, ifnull(p.hashes, x''),
    ifnull(p.record, '')
FROM job_rows j JOIN old_jobs o ON o.job = j.job
    LEFT JOIN old_parts p ON p.no = j.no
        AND p.last = (SELECT max(q.last) FROM old_parts q WHERE q.no = j.no);

INSERT INTO claim_rows (no, job, status, version, retry_count, updated_at, reason_code, attempt,
    expires_at, beat_at, due_at, worker_id, progress, cursor, state, hashes, record)
SELECT j.no, o.job, o.status, o.version, o.retry_count, o.updated_at, o.reason_code, c.attempt,
    c.expires_at, c.beat_at, c.due_at, c.worker_id, c.progress, c.cursor, o.state, x'', ''
FROM old_claims c JOIN job_rows j ON j.job = c.job JOIN old_jobs o ON o.job = c.job
WHERE c.step = -1;

INSERT INTO step_claims SELECT job, step, worker_id, resource_id, attempt, expires_at, beat_at,
    due_at, progress, cursor FROM old_claims WHERE step <> -1;

INSERT INTO job_counts SELECT ifnull(queue, ''), status, count(*) FROM old_jobs GROUP BY 1, 2;

DROP TABLE old_parts;

INSERT INTO feed (position, jobs)
SELECT t.position, '[' || j.no || ',1,' || t.version || ',1]'
FROM old_texts t JOIN job_rows j ON j.job = t.job ORDER BY t.position;
UPDATE feed_end SET position = max(position, (SELECT ifnull(max(position), 0) FROM old_events)),
    no = (SELECT ifnull(max(no), 0) FROM job_rows);
UPDATE feed_end SET counted = position;

DROP TABLE old_texts;
DROP TABLE old_events;
DROP TABLE old_claims;
DROP TABLE old_jobs;

UPDATE state_rows SET effects = x''
WHERE NOT EXISTS (SELECT 1 FROM job_effects e JOIN job_rows j ON j.job = e.job
    WHERE j.no = state_rows.no);
UPDATE claim_rows SET effects = x''
WHERE NOT EXISTS (SELECT 1 FROM job_effects e WHERE e.job = claim_rows.job);

-- Of a job that has many, an effect is found by its name; all of a job are next to each other.
DROP INDEX job_effects_open;
DROP INDEX job_effects_by_owner;

-- ---- for people ----

CREATE VIEW jobs AS
SELECT lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(j.job), substr(hex(j.job), 9),
                    substr(hex(j.job), 13), substr(hex(j.job), 17), substr(hex(j.job), 21))) AS id,
    coalesce(c.status, s.status, j.status) AS status,
    coalesce(c.version, s.version, 1) AS version,
    coalesce(c.retry_count, s.retry_count, 0) AS retry_count, j.created_at,
    coalesce(c.updated_at, s.updated_at, j.created_at) AS updated_at, j.queue, j.kind, j.priority,
    coalesce(c.reason_code, s.reason_code, 0) AS reason_code,
    CASE WHEN c.no IS NULL THEN ifnull(s.purge_at, 0) ELSE 0 END AS purge_at, j.redacted,
    CASE WHEN c.no IS NULL THEN ifnull(s.asking, 0) ELSE 0 END AS asking, j.agent_id,
    j.correlation_id, j.idempotency_key,
    CASE WHEN c.no IS NULL THEN s.cursor ELSE c.cursor END AS cursor,
    json_extract(j.created, '$[6].goal') AS goal, json_extract(j.created, '$[6].labels') AS labels,
    j.job, j.no
FROM job_rows j LEFT JOIN state_rows s ON s.no = j.no LEFT JOIN claim_rows c ON c.no = j.no;

-- The id of an event is made from its hash, as a UUID of version 8.
CREATE VIEW job_events AS
SELECT lower(printf('%.8s-%.4s-8%.3s-%s%.3s-%.12s', hex(hash), substr(hex(hash), 9),
                    substr(hex(hash), 14),
                    substr('89AB89AB89AB89AB',
                           instr('0123456789ABCDEF', substr(hex(hash), 17, 1)), 1),
                    substr(hex(hash), 18), substr(hex(hash), 21))) AS id,
    lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                 substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS job_id,
    json_extract(event, '$[0]') AS version, CASE json_extract(event, '$[1]')
        WHEN 1 THEN 'job_created' WHEN 2 THEN 'job_queued' WHEN 3 THEN 'job_requeued'
        WHEN 4 THEN 'job_leased' WHEN 5 THEN 'job_running' WHEN 6 THEN 'job_waiting'
        WHEN 7 THEN 'wait_completed' WHEN 8 THEN 'job_completed' WHEN 9 THEN 'job_failed'
        WHEN 10 THEN 'job_cancelled' WHEN 11 THEN 'job_dead_lettered'
        ELSE json_extract(event, '$[1]') END AS type,
    json_extract(event, '$[2]') AS created_at, json_extract(event, '$[7]') IS NOT NULL AS redacted,
    json_extract(event, '$[3]') AS actor, json_extract(event, '$[4]') AS cause,
    json_extract(event, '$[5]') AS correlation_id, hash,
    CASE WHEN json_type(event, '$[6]') <> 'null' THEN event -> '$[6]' END AS payload, job, no
FROM (
    SELECT p.no, j.job, e.value AS event, substr(p.hashes, 32 * e.key + 1, 32) AS hash
    FROM (
        SELECT no, hash AS hashes, created AS events FROM job_rows
        UNION ALL SELECT no, hashes, substr(record, 2) FROM history
        UNION ALL SELECT no, hashes, substr(record, 2) FROM state_rows
        UNION ALL SELECT no, hashes, substr(record, 2) FROM claim_rows
    ) p JOIN job_rows j ON j.no = p.no JOIN json_each('[' || p.events || ']') e
);

CREATE VIEW job_claims AS
SELECT lower(printf('%.8s-%.4s-%.4s-%.4s-%s', hex(job), substr(hex(job), 9),
                    substr(hex(job), 13), substr(hex(job), 17), substr(hex(job), 21))) AS job_id,
    step, worker_id, resource_id, attempt, expires_at, beat_at, due_at, progress, cursor, job
FROM (
    SELECT job, -1 AS step, worker_id, NULL AS resource_id, attempt, expires_at, beat_at, due_at,
        progress, cursor FROM claim_rows
    UNION ALL
    SELECT job, step, worker_id, resource_id, attempt, expires_at, beat_at, due_at, progress, cursor
    FROM step_claims
);
