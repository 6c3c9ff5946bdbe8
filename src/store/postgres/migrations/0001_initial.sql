-- usable_from: 1
-- The first schema. Every name is qualified, since users may have tables called jobs of their own.
-- There are no foreign keys: whoever writes a job holds the lock of its row.

-- One row a job. What is searched by has a column, the rest is in `state`. Columns that seldom
-- change come last. `purge_at` and the other times in bigint are milliseconds since 1970.
CREATE TABLE pawl.jobs (
    id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    version bigint NOT NULL,
    purge_at bigint,
    status integer NOT NULL,
    retry_count integer NOT NULL,
    reason_code integer NOT NULL,
    priority integer NOT NULL,
    redacted boolean NOT NULL,
    head bytea NOT NULL,
    salt bytea NOT NULL,
    cursor text,
    state json NOT NULL,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C",
    goal text,
    correlation_id text COLLATE "C",
    idempotency_key text COLLATE "C",
    labels json,
    CONSTRAINT jobs_pkey PRIMARY KEY (id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_cost_delay = 1);

CREATE UNIQUE INDEX jobs_idempotency_key ON pawl.jobs (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_correlation_id ON pawl.jobs (correlation_id, id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX jobs_agent_id ON pawl.jobs (agent_id, id) WHERE agent_id IS NOT NULL;
-- Completed (2) and cancelled (4) jobs are the bulk of an old table, and are read newest first.
CREATE INDEX jobs_status ON pawl.jobs (status, id) WHERE status NOT IN (2, 4);
CREATE INDEX jobs_purge_at ON pawl.jobs (purge_at, id) WHERE purge_at IS NOT NULL;

-- The streams. The place in the feed is (xact, seq): sequences alone are not in the order of
-- commits. `xact` is later than the transaction itself and than all that had ended when the event
-- was inserted, so that the versions of a job are in order.
CREATE TABLE pawl.job_events (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    xact xid8 NOT NULL DEFAULT greatest(
        (pg_current_xact_id()::text::bigint + 1)::text::xid8,
        pg_snapshot_xmax(pg_current_snapshot())),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    redacted boolean NOT NULL DEFAULT false,
    type text COLLATE "C" NOT NULL,
    payload json,
    actor text COLLATE "C",
    cause text COLLATE "C",
    correlation_id text COLLATE "C",
    digest bytea NOT NULL,
    hash bytea NOT NULL,
    -- The hash, cut to a UUID of version 8: nobody has to write it.
    id uuid GENERATED ALWAYS AS (encode(
        set_byte(set_byte(substring(hash FROM 1 FOR 16), 6, (get_byte(hash, 6) & 15) | 128),
                 8, (get_byte(hash, 8) & 63) | 128), 'hex')::uuid) STORED,
    CONSTRAINT job_events_pkey PRIMARY KEY (job_id, version)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX job_events_feed ON pawl.job_events (xact, seq);
CREATE INDEX job_events_type ON pawl.job_events (type, created_at);
CREATE INDEX job_events_correlation_id ON pawl.job_events (correlation_id)
    WHERE correlation_id IS NOT NULL;

-- Live leases; step -1 is the job itself. Heartbeats change no indexed column.
CREATE TABLE pawl.job_claims (
    job_id uuid NOT NULL,
    step integer NOT NULL,
    attempt bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    beat_at bigint NOT NULL,
    due_at bigint NOT NULL,
    worker_id text COLLATE "C",
    resource_id text COLLATE "C",
    progress json,
    cursor text,
    CONSTRAINT job_claims_pkey PRIMARY KEY (job_id, step)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX job_claims_due_at ON pawl.job_claims (due_at, job_id, step) WHERE due_at > 0;
CREATE INDEX job_claims_resource_id ON pawl.job_claims (resource_id)
    WHERE resource_id IS NOT NULL;

-- Work that can be claimed now; rank is minus the priority.
CREATE TABLE pawl.ready (
    lane integer NOT NULL,
    rank integer NOT NULL,
    run_at bigint NOT NULL,
    job_id uuid NOT NULL,
    step integer NOT NULL,
    CONSTRAINT ready_pkey PRIMARY KEY (lane, rank, run_at, job_id, step)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What is to happen later: kind 0 is work that goes to `ready`, kind 1 a due time.
CREATE TABLE pawl.timers (
    kind smallint NOT NULL,
    step integer NOT NULL,
    at bigint NOT NULL,
    job_id uuid NOT NULL,
    lane integer,
    rank integer,
    CONSTRAINT timers_pkey PRIMARY KEY (kind, at, job_id, step)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- Steps, each with the place that it has in ready, timers or job_claims.
CREATE TABLE pawl.job_steps (
    job_id uuid NOT NULL,
    ordinal integer NOT NULL,
    state_number integer NOT NULL,
    lane integer,
    rank integer NOT NULL,
    run_at bigint NOT NULL,
    due_at bigint NOT NULL,
    leased boolean NOT NULL,
    id text COLLATE "C" NOT NULL,
    asking_key text COLLATE "C",
    children integer[] NOT NULL,
    plan json NOT NULL,
    state json NOT NULL,
    CONSTRAINT job_steps_pkey PRIMARY KEY (job_id, ordinal)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX job_steps_id ON pawl.job_steps (job_id, id);
CREATE INDEX job_steps_asking_key ON pawl.job_steps (job_id, asking_key)
    WHERE asking_key IS NOT NULL;

CREATE TABLE pawl.job_effects (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    open boolean NOT NULL,
    name text COLLATE "C" NOT NULL,
    step text COLLATE "C",
    key text COLLATE "C" NOT NULL,
    state json NOT NULL,
    CONSTRAINT job_effects_pkey PRIMARY KEY (job_id, name)
);

CREATE INDEX job_effects_open ON pawl.job_effects (job_id) WHERE open;

CREATE TABLE pawl.job_signals (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    delivered boolean NOT NULL,
    correlation_key text COLLATE "C",
    signal_id text COLLATE "C",
    payload json,
    CONSTRAINT job_signals_pkey PRIMARY KEY (job_id, version)
);

CREATE INDEX job_signals_key ON pawl.job_signals (job_id, correlation_key, version);
CREATE INDEX job_signals_stored ON pawl.job_signals (job_id, correlation_key, version)
    WHERE NOT delivered;
CREATE INDEX job_signals_id ON pawl.job_signals (job_id, signal_id)
    WHERE signal_id IS NOT NULL;

CREATE TABLE pawl.job_telemetry (
    job_id uuid NOT NULL,
    at bigint NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY (CACHE 100),
    type text COLLATE "C" NOT NULL,
    payload json,
    actor text COLLATE "C",
    cause text COLLATE "C",
    correlation_id text COLLATE "C"
);

CREATE INDEX job_telemetry_job ON pawl.job_telemetry (job_id, at, n);
CREATE INDEX job_telemetry_at ON pawl.job_telemetry (at);

-- Keys can be longer than an index allows, so their SHA-256 stands for them.
CREATE TABLE pawl.lanes (
    number integer NOT NULL,
    hash bytea NOT NULL,
    key text COLLATE "C" NOT NULL,
    CONSTRAINT lanes_pkey PRIMARY KEY (number),
    CONSTRAINT lanes_hash UNIQUE (hash)
);

CREATE TABLE pawl.requests (
    id bytea NOT NULL, -- SHA-256 of scope and key
    at bigint NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    body_hash bytea NOT NULL,
    answer bytea,
    CONSTRAINT requests_pkey PRIMARY KEY (id)
);

CREATE INDEX requests_at ON pawl.requests (at);

CREATE TABLE pawl.resources (
    id text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    state json NOT NULL,
    CONSTRAINT resources_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX resources_expires_at ON pawl.resources (expires_at, id);

CREATE TABLE pawl.kinds (
    kind text COLLATE "C" NOT NULL,
    settings json NOT NULL,
    CONSTRAINT kinds_pkey PRIMARY KEY (kind)
);

CREATE TABLE pawl.queues (
    queue text COLLATE "C" NOT NULL,
    paused boolean NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (queue)
);

CREATE TABLE pawl.purged (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    head bytea NOT NULL,
    CONSTRAINT purged_pkey PRIMARY KEY (job_id)
);

-- Every writing transaction leaves its number here. Whoever must find out whether it was committed
-- puts in the same number, with `fenced`: only one of the two rows can ever be there.
CREATE TABLE pawl.batches (
    session uuid NOT NULL,
    batch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    fenced boolean NOT NULL DEFAULT false,
    CONSTRAINT batches_pkey PRIMARY KEY (session, batch)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

-- Jobs that users put in with transactions of their own, until the engine takes them in.
CREATE TABLE pawl.submissions (
    id uuid NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    kind text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    payload json,
    options json,
    CONSTRAINT submissions_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX submissions_seq ON pawl.submissions (seq);
CREATE UNIQUE INDEX submissions_idempotency_key ON pawl.submissions (queue, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- Refuses what the engine would refuse as a name.
CREATE FUNCTION pawl.check_name(what text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF name IS NULL OR name = '' THEN
        RAISE EXCEPTION 'pawl_submit: % must not be empty', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(convert_to(name, 'UTF8')) > 128 THEN
        RAISE EXCEPTION 'pawl_submit: % must be at most 128 bytes long, not %', what,
            octet_length(convert_to(name, 'UTF8'))
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF name ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION 'pawl_submit: % must not have control characters', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- A member of the options that must be a name when it is there.
CREATE FUNCTION pawl.option_name(options json, what text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    value json := options -> what;
BEGIN
    IF value IS NULL THEN
        RETURN NULL;
    END IF;
    IF json_typeof(value) <> 'string' THEN
        RAISE EXCEPTION 'pawl_submit: options.% must be a string, not %', what, value
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pawl.check_name('options.' || what, options ->> what);
    RETURN options ->> what;
END
$$;

-- Puts a job in with the caller's own transaction and returns its id: rolled back, there is
-- nothing; committed, there will be exactly one job with this id. A key that a job or a submission
-- of the same queue has already gives the id of that one.
CREATE FUNCTION pawl.pawl_submit(kind text, payload json DEFAULT NULL, options json DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    random text := replace(gen_random_uuid()::text, '-', '');
    new_id uuid := (lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint),
                         12, '0') || '7' || substr(random, 14))::uuid;
    old_id uuid;
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
            SELECT j.id INTO old_id FROM pawl.jobs j
            WHERE j.queue = queue_name AND j.idempotency_key = key;
            IF FOUND THEN
                DELETE FROM pawl.submissions s WHERE s.id = new_id;
                RETURN old_id::text;
            END IF;
            RETURN new_id::text;
        END IF;
        SELECT s.id INTO old_id FROM pawl.submissions s
        WHERE s.queue = queue_name AND s.idempotency_key = key;
        IF FOUND THEN
            RETURN old_id::text;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'pawl_submit: the key "%" of queue "%" is busy, try again', key, queue_name
        USING ERRCODE = 'lock_not_available';
END
$$;

REVOKE ALL ON FUNCTION pawl.check_name(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pawl.option_name(json, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pawl.pawl_submit(text, json, json) FROM PUBLIC;

-- The same under a name that needs no schema, where that is possible and free.
DO $$
BEGIN
    IF to_regnamespace('public') IS NULL
        OR NOT has_schema_privilege(current_user, 'public', 'CREATE')
        OR to_regprocedure('public.pawl_submit(text, json, json)') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE FUNCTION public.pawl_submit(kind text, payload json DEFAULT NULL,
                                       options json DEFAULT NULL)
    RETURNS text
    LANGUAGE sql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS 'SELECT pawl.pawl_submit($1, $2, $3)';
    REVOKE ALL ON FUNCTION public.pawl_submit(text, json, json) FROM PUBLIC;
END
$$;
