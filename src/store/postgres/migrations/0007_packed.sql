-- usable_from: 7
-- Fewer rows and index entries a life: see README.md. A job's row is written once, when it is made;
-- what changes is in state_rows, or in claim_rows while it is leased. Events are packed: what a job
-- gains in one commit is added to one text.

ALTER TABLE pawl.jobs RENAME TO old_jobs;
ALTER TABLE pawl.job_events RENAME TO old_events;
ALTER TABLE pawl.job_claims RENAME TO old_claims;
DROP INDEX pawl.jobs_idempotency_key, pawl.jobs_correlation_id, pawl.jobs_agent_id,
    pawl.jobs_purge_at, pawl.jobs_asking, pawl.jobs_shelf, pawl.job_events_feed,
    pawl.job_events_type, pawl.job_events_correlation_id, pawl.job_claims_due_at,
    pawl.job_claims_resource_id;

-- One row a job, as it was made. `first` and `created` are its first event: see `record` below.
-- status and state count until there is a row in state_rows or claim_rows. parent_id, root_id,
-- schedule_id and dedupe_key are reserved, as they were before.
CREATE TABLE pawl.job_rows (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    priority integer NOT NULL,
    status integer NOT NULL,
    redacted boolean NOT NULL,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C",
    correlation_id text COLLATE "C",
    idempotency_key text COLLATE "C",
    labels json,
    parent_id uuid,
    root_id uuid,
    schedule_id text COLLATE "C",
    dedupe_key text COLLATE "C",
    state text NOT NULL,
    first text NOT NULL,
    created text,
    CONSTRAINT job_rows_pkey PRIMARY KEY (id)
);

CREATE UNIQUE INDEX jobs_idempotency_key ON pawl.job_rows (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_correlation_id ON pawl.job_rows (correlation_id, id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_agent_id ON pawl.job_rows (agent_id, id) WHERE agent_id IS NOT NULL;

-- A job after its first claim, while nobody holds it; or from the start, if it is in no lane then.
-- While there is a row in claim_rows too, that one counts, and this one has only older events.
--
-- `record` is events, packed: of each a comma, a JSON array [version, type, time in ms, actor, cause,
-- correlation_id], a comma, and the payload, or null. When the payload was erased its digest, in hex,
-- is the last element. `hashes` has 32 bytes for each.
CREATE TABLE pawl.state_rows (
    job_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    version bigint NOT NULL,
    purge_at bigint NOT NULL, -- 0: never
    status integer NOT NULL,
    retry_count integer NOT NULL,
    reason_code integer NOT NULL,
    asking boolean NOT NULL,
    queue text COLLATE "C" NOT NULL,
    hashes bytea NOT NULL,
    cursor text,
    state text NOT NULL,
    record text NOT NULL,
    CONSTRAINT state_rows_pkey PRIMARY KEY (job_id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);

-- Every row has an entry in one of the two, which includes what jobs are counted by.
CREATE INDEX states_status ON pawl.state_rows (status, job_id) INCLUDE (queue, created_at)
    WHERE purge_at = 0;
CREATE INDEX states_purge_at ON pawl.state_rows (purge_at, job_id)
    INCLUDE (status, queue, created_at) WHERE purge_at > 0;
CREATE INDEX states_asking ON pawl.state_rows (job_id) WHERE asking;

-- Live leases; step -1 is the job itself, and the row then has the job as it is meanwhile. Heartbeats
-- change no indexed column.
CREATE TABLE pawl.claim_rows (
    job_id uuid NOT NULL,
    step integer NOT NULL,
    status integer,
    attempt bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    beat_at bigint NOT NULL,
    due_at bigint NOT NULL,
    updated_at timestamptz,
    version bigint,
    retry_count integer,
    reason_code integer,
    worker_id text COLLATE "C",
    resource_id text COLLATE "C",
    hashes bytea,
    progress text,
    cursor text,
    state text,
    record text,
    CONSTRAINT claim_rows_pkey PRIMARY KEY (job_id, step),
    CONSTRAINT claim_rows_version CHECK (step >= 0 OR version IS NOT NULL)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX claims_due_at ON pawl.claim_rows (due_at, job_id, step) WHERE due_at > 0;
CREATE INDEX claims_resource_id ON pawl.claim_rows (resource_id) WHERE resource_id IS NOT NULL;

-- Events that have no room in a record any more; `first` is the version of the first.
CREATE TABLE pawl.history (
    job_id uuid NOT NULL,
    first bigint NOT NULL,
    hashes bytea NOT NULL,
    record text NOT NULL,
    CONSTRAINT history_pkey PRIMARY KEY (job_id, first)
);

-- The number of a batch is also its entry in the feed, if it wrote events: whose, from which version
-- on, and how many of each job; where that is the same for all jobs, once. `seq` is in the order of the commits of each job; `number`, which is
-- given when the entry is first read, is the place in the feed, for good. Entries that came from
-- separate events have the places that these had, in `seqs`.
ALTER TABLE pawl.batches RENAME TO batch_rows;
ALTER TABLE pawl.batch_rows
    DROP COLUMN oldest,
    ADD COLUMN seq bigint,
    ADD COLUMN number bigint,
    ADD COLUMN jobs uuid[],
    ADD COLUMN versions bigint[],
    ADD COLUMN counts integer[],
    ADD COLUMN seqs bigint[],
    ALTER COLUMN jobs SET STORAGE EXTERNAL;
ALTER TABLE pawl.requests ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE SEQUENCE pawl.feed_seq;
CREATE INDEX batches_at ON pawl.batch_rows (at) WHERE seq IS NULL;
CREATE INDEX batches_unnumbered ON pawl.batch_rows (seq) WHERE seq IS NOT NULL AND number IS NULL;
CREATE INDEX batches_number ON pawl.batch_rows (number) WHERE number IS NOT NULL;

-- A server of an older version that is still running can commit nothing: each batch leaves its
-- number here.
CREATE VIEW pawl.batches AS SELECT session, batch FROM pawl.batch_rows;
CREATE FUNCTION pawl.refuse_older() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the schema has version 7, and this server is of an older Pawl: upgrade it'
        USING ERRCODE = 'feature_not_supported';
END
$$;
CREATE TRIGGER refuse_older INSTEAD OF INSERT OR UPDATE OR DELETE ON pawl.batches
    FOR EACH ROW EXECUTE FUNCTION pawl.refuse_older();

-- The last number that was given.
CREATE TABLE pawl.feed_end (
    one boolean PRIMARY KEY CHECK (one),
    number bigint NOT NULL
);
INSERT INTO pawl.feed_end (one, number)
SELECT true, coalesce((SELECT max(xact::text::bigint) FROM pawl.old_events), 0);

-- ---- events, unpacked ----

-- The events of one part: pairs of an array and a payload.
CREATE FUNCTION pawl.unpacked(record text, hashes bytea)
RETURNS TABLE (about json, payload json, hash bytea)
LANGUAGE sql IMMUTABLE
AS $$
    SELECT p.about, p.payload, substring($2 FROM (16 * (p.n - 1) + 1)::int FOR 32)
    FROM (
        SELECT e.value AS about, lead(e.value) OVER (ORDER BY e.n) AS payload, e.n
        FROM json_array_elements(('[' || substr($1, 2) || ']')::json)
            WITH ORDINALITY AS e (value, n)
    ) AS p
    WHERE p.n % 2 = 1
$$;

-- The events of a job behind version `after` and up to `upto`. A digest follows from the payload as
-- long as there is one.
CREATE FUNCTION pawl.events_of(job uuid, after bigint, upto bigint)
RETURNS TABLE (job_id uuid, version bigint, created_at timestamptz, redacted boolean, type text,
               payload json, actor text, cause text, correlation_id text, digest bytea, hash bytea)
LANGUAGE sql STABLE
AS $$
    SELECT j.id, e.version,
        timestamptz 'epoch' + (e.about ->> 2)::bigint * interval '1 ms', e.about ->> 6 IS NOT NULL,
        e.about ->> 1, e.payload, e.about ->> 3, e.about ->> 4, e.about ->> 5,
        coalesce(decode(e.about ->> 6, 'hex'),
                 sha256(j.salt || coalesce(convert_to(e.payload::text, 'UTF8'), ''))), e.hash
    FROM pawl.job_rows j
    CROSS JOIN LATERAL (
        SELECT 1::bigint AS version, j.first::json AS about, j.created::json AS payload, j.hash
        WHERE $2 < 1
        UNION ALL
        SELECT (u.about ->> 0)::bigint, u.about,
            CASE WHEN u.payload::text <> 'null' THEN u.payload END, u.hash
        FROM (
            SELECT h.record, h.hashes FROM pawl.history h
            WHERE h.job_id = j.id AND h.first <= $3
                AND h.first + octet_length(h.hashes) / 32 > $2 + 1
            UNION ALL SELECT s.record, s.hashes FROM pawl.state_rows s WHERE s.job_id = j.id
            UNION ALL SELECT c.record, c.hashes FROM pawl.claim_rows c
            WHERE c.job_id = j.id AND c.step = -1
        ) AS p, pawl.unpacked(p.record, p.hashes) AS u
    ) AS e
    WHERE j.id = $1 AND e.version > $2 AND e.version <= $3
$$;

-- A record without its payloads.
CREATE FUNCTION pawl.erased(record text, salt bytea) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(string_agg(',' || CASE WHEN u.about ->> 6 IS NOT NULL THEN u.about::text
        ELSE left(u.about::text, -1) || ',"' || encode(sha256($2 || CASE WHEN u.payload::text
            <> 'null' THEN convert_to(u.payload::text, 'UTF8') ELSE '' END), 'hex') || '"]' END
        || ',null', '' ORDER BY (u.about ->> 0)::bigint), '')
    FROM pawl.unpacked($1, '') AS u
$$;

-- ---- for people ----

-- PostgreSQL reads no JSON with \u0000 in it, so that is taken out first.
CREATE VIEW pawl.jobs AS
SELECT j.id, coalesce(c.status, s.status, j.status) AS status,
    coalesce(c.version, s.version, 1) AS version,
    coalesce(c.retry_count, s.retry_count, 0) AS retry_count, j.created_at,
    coalesce(c.updated_at, s.updated_at, j.created_at) AS updated_at, j.queue, j.kind, j.priority,
    coalesce(c.reason_code, s.reason_code, 0) AS reason_code,
    CASE WHEN c.job_id IS NULL THEN nullif(s.purge_at, 0) END AS purge_at, j.redacted,
    c.job_id IS NULL AND coalesce(s.asking, false) AS asking, j.agent_id, j.correlation_id,
    j.idempotency_key, CASE WHEN c.job_id IS NULL THEN s.cursor ELSE c.cursor END AS cursor,
    regexp_replace(j.created, '(\\\\)|\\u0000', '\1', 'g')::json ->> 'goal' AS goal,
    j.labels, coalesce(c.state, s.state, j.state)::json AS state
FROM pawl.job_rows j
LEFT JOIN pawl.state_rows s ON s.job_id = j.id
LEFT JOIN pawl.claim_rows c ON c.job_id = j.id AND c.step = -1;

-- The id of an event is made from its hash, as a UUID of version 8.
CREATE VIEW pawl.job_events AS
SELECT encode(set_byte(set_byte(substring(e.hash FROM 1 FOR 16), 6, (get_byte(e.hash, 6) & 15) | 128),
                       8, (get_byte(e.hash, 8) & 63) | 128), 'hex')::uuid AS id, e.*
FROM pawl.job_rows j, pawl.events_of(j.id, 0, 9223372036854775807) AS e;

CREATE VIEW pawl.job_claims AS
SELECT job_id, step, attempt, expires_at, beat_at, due_at, worker_id, resource_id,
    progress::json AS progress, cursor
FROM pawl.claim_rows;

-- ---- jobs from a user's own transaction ----

-- As before, on the new tables.
CREATE OR REPLACE FUNCTION pawl.pawl_submit(kind text, payload json DEFAULT NULL,
                                            options json DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    random text := replace(gen_random_uuid()::text, '-', '');
    new_id uuid := (lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint),
                         12, '0') || '7' || substr(random, 14))::uuid;
    old record;
    key text;
    queue_name text;
BEGIN
    PERFORM pawl.check_name('kind', pawl_submit.kind);
    IF octet_length(pawl_submit.payload::text) > 1048576 THEN
        RAISE EXCEPTION 'pawl_submit: the payload must be at most 1048576 bytes long, not %',
            octet_length(pawl_submit.payload::text)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(pawl_submit.options::text) > 1048576 THEN
        RAISE EXCEPTION 'pawl_submit: the options must be at most 1048576 bytes long, not %',
            octet_length(pawl_submit.options::text)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF json_typeof(pawl_submit.options) <> 'object' THEN
        RAISE EXCEPTION 'pawl_submit: options must be a JSON object, not %',
            json_typeof(pawl_submit.options)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF pawl_submit.options IS NOT NULL THEN
        key := pawl.option_name(pawl_submit.options, 'idempotency_key');
        queue_name := pawl.option_name(pawl_submit.options, 'queue');
    END IF;
    queue_name := coalesce(queue_name, 'default');
    FOR round IN 1..100 LOOP
        -- The submission first, the jobs after it: whoever takes a submission in makes the job and
        -- deletes the submission in one commit, so that one of the two is always seen.
        INSERT INTO pawl.submissions AS s (id, kind, queue, idempotency_key, payload, options)
        VALUES (new_id, pawl_submit.kind, queue_name, key, pawl_submit.payload,
                pawl_submit.options)
        ON CONFLICT (queue, idempotency_key) WHERE s.idempotency_key IS NOT NULL DO NOTHING;
        IF FOUND THEN
            IF key IS NULL THEN
                RETURN new_id::text;
            END IF;
            SELECT r.id, r.kind, r.redacted, r.created::json AS spec,
                coalesce((j.state ->> 'plan_version')::int8, 0) > 0 AS planned
            INTO old FROM pawl.job_rows r JOIN pawl.jobs j ON j.id = r.id
            WHERE r.queue = queue_name AND r.idempotency_key = key;
            IF FOUND THEN
                PERFORM pawl.check_repeat(key, pawl_submit.kind, pawl_submit.payload,
                                          pawl_submit.options, old.kind, old.spec -> 'payload',
                                          old.spec, old.planned, old.redacted);
                DELETE FROM pawl.submissions s WHERE s.id = new_id;
                RETURN old.id::text;
            END IF;
            RETURN new_id::text;
        END IF;
        SELECT s.id, s.kind, s.payload, s.options INTO old FROM pawl.submissions s
        WHERE s.queue = queue_name AND s.idempotency_key = key;
        IF FOUND THEN
            PERFORM pawl.check_repeat(key, pawl_submit.kind, pawl_submit.payload,
                                      pawl_submit.options, old.kind, old.payload, old.options,
                                      old.options ->> 'plan' IS NOT NULL, false);
            RETURN old.id::text;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'pawl_submit: the key "%" of queue "%" is busy, try again', key, queue_name
        USING ERRCODE = 'lock_not_available';
END
$$;

-- ---- what there was ----

-- Moves some jobs into the new tables and says how many.
CREATE FUNCTION pawl.move_old(wanted integer) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    moved uuid[] := ARRAY(SELECT id FROM pawl.old_jobs ORDER BY id LIMIT wanted);
BEGIN
    CREATE TEMPORARY TABLE moved_events ON COMMIT DROP AS
    SELECT e.job_id, e.version, e.hash, e.payload, e.xact::text::bigint AS number, e.seq,
        '[' || e.version || ',' || to_json(e.type) || ','
            || floor(extract(epoch FROM e.created_at) * 1000)::bigint || ','
            || coalesce(to_json(e.actor)::text, 'null') || ','
            || coalesce(to_json(e.cause)::text, 'null') || ','
            || coalesce(to_json(e.correlation_id)::text, 'null')
            || CASE WHEN e.redacted THEN ',"' || encode(e.digest, 'hex') || '"' ELSE '' END
            || ']' AS about
    FROM pawl.old_events e WHERE e.job_id = ANY (moved);
    CREATE TEMPORARY TABLE moved_parts ON COMMIT DROP AS
    SELECT e.job_id, min(e.version) AS first, max(e.version) AS last,
        string_agg(e.hash, '' ORDER BY e.version) AS hashes,
        string_agg(',' || e.about || ',' || coalesce(e.payload::text, 'null'), ''
                   ORDER BY e.version) AS record
    FROM moved_events e WHERE e.version > 1 GROUP BY e.job_id, (e.version - 2) / 32;

    INSERT INTO pawl.job_rows (id, created_at, priority, status, redacted, salt, hash, kind, queue,
        agent_id, correlation_id, idempotency_key, labels, state, first, created)
    SELECT o.id, o.created_at, o.priority, o.status, o.redacted, o.salt, e.hash, o.kind, o.queue,
        o.agent_id, o.correlation_id, o.idempotency_key, o.labels, o.state, e.about, e.payload
    FROM pawl.old_jobs o JOIN moved_events e ON e.job_id = o.id AND e.version = 1
    WHERE o.id = ANY (moved);
    INSERT INTO pawl.history (job_id, first, hashes, record)
    SELECT p.job_id, p.first, p.hashes, p.record
    FROM moved_parts p JOIN pawl.old_jobs o ON o.id = p.job_id AND p.last < o.version;
    INSERT INTO pawl.state_rows (job_id, created_at, updated_at, version, purge_at, status,
        retry_count, reason_code, asking, queue, hashes, cursor, state, record)
    SELECT o.id, o.created_at, o.updated_at, o.version, coalesce(o.purge_at, 0), o.status,
        o.retry_count, o.reason_code, o.asking, o.queue, coalesce(p.hashes, ''), o.cursor, o.state,
        coalesce(p.record, '')
    FROM pawl.old_jobs o LEFT JOIN moved_parts p ON p.job_id = o.id AND p.last = o.version
    WHERE o.id = ANY (moved);
    INSERT INTO pawl.claim_rows (job_id, step, status, attempt, expires_at, beat_at, due_at,
        updated_at, version, retry_count, reason_code, worker_id, resource_id, hashes, progress,
        cursor, state, record)
    SELECT c.job_id, c.step, o.status, c.attempt, c.expires_at, c.beat_at, c.due_at, o.updated_at,
        o.version, o.retry_count, o.reason_code, c.worker_id, c.resource_id, '', c.progress,
        c.cursor, o.state, ''
    FROM pawl.old_claims c LEFT JOIN pawl.old_jobs o ON o.id = c.job_id AND c.step = -1
    WHERE c.job_id = ANY (moved);
    INSERT INTO pawl.batch_rows (session, batch, seq, number, jobs, versions, counts, seqs)
    SELECT gen_random_uuid(), 0, min(e.seq), e.number, array_agg(e.job_id ORDER BY e.seq),
        array_agg(e.version ORDER BY e.seq), array_agg(1 ORDER BY e.seq), array_agg(e.seq ORDER BY e.seq)
    FROM moved_events e GROUP BY e.number;
    DELETE FROM pawl.old_events WHERE job_id = ANY (moved);
    DELETE FROM pawl.old_claims WHERE job_id = ANY (moved);
    DELETE FROM pawl.old_jobs WHERE id = ANY (moved);
    RETURN coalesce(cardinality(moved), 0);
END
$$;

CREATE FUNCTION pawl.end_move() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM pawl.old_jobs) THEN
        RAISE EXCEPTION 'there are old jobs to move yet';
    END IF;
    DROP TABLE pawl.old_jobs, pawl.old_events, pawl.old_claims;
    DROP FUNCTION pawl.move_old(integer);
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.old_jobs) THEN
        PERFORM pawl.end_move();
    END IF;
END
$$;
