-- usable_from: 6
-- What is left of a deleted job goes too, some time after the job. Rows that are there already count
-- from now on.
ALTER TABLE pawl.purged ADD COLUMN at int8 NOT NULL
    DEFAULT floor(extract(epoch FROM now()) * 1000)::int8;
CREATE INDEX purged_at ON pawl.purged (at);

-- What the store was read from: one row for each life of it. A failover, a restore, a copy to another
-- cluster begins another. `xact` is the transaction that wrote the row, as its xmin is, unless it was
-- loaded from a dump. Events of the feed above `feed_floor` may have been lost when the row was
-- added. `superseded_by` is a timeline on which a server has seen another primary.
CREATE TABLE pawl.incarnations (
    number int8 PRIMARY KEY,
    id uuid NOT NULL,
    system int8 NOT NULL,
    timeline int8 NOT NULL,
    database int8 NOT NULL,
    restored boolean NOT NULL,
    feed_floor int8 NOT NULL,
    superseded_by int8 NOT NULL DEFAULT 0,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- The oldest transaction that ran beside a batch: all before it had ended.
ALTER TABLE pawl.batches ADD COLUMN oldest xid8 NOT NULL
    DEFAULT pg_snapshot_xmin(pg_current_snapshot());

-- Time does not go back when the database's clock is set back, nor when a standby takes over whose
-- clock is behind. The clock as it is, and where the store's time left it: from there on the
-- store's time goes at half the speed of the clock, until the two agree (store/postgres/clock.c).
CREATE FUNCTION pawl.wall_ms() RETURNS int8
LANGUAGE sql VOLATILE
AS 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8';

CREATE TABLE pawl.clock (
    one boolean PRIMARY KEY CHECK (one),
    anchor int8 NOT NULL, -- the store's time
    wall int8 NOT NULL    -- when the clock said this
);
INSERT INTO pawl.clock (one, anchor, wall) VALUES (true, 0, 0);

-- What the clock said when somebody last looked after the store, and which time was trusted then.
ALTER TABLE pawl.attended ADD COLUMN wall int8 NOT NULL DEFAULT 0;
ALTER TABLE pawl.attended ADD COLUMN trusted int8 NOT NULL DEFAULT 0;
-- Telemetry says which version the job had; rows from before do not know.
ALTER TABLE pawl.job_telemetry ADD COLUMN version int8 NOT NULL DEFAULT 0;
-- Answers to questions of people have a scope of their own, which tokens that could answer keep.
UPDATE pawl.tokens SET scopes = scopes || ',answer'
    WHERE ',' || scopes || ',' LIKE '%,submit,%' AND ',' || scopes || ',' NOT LIKE '%,answer,%';



-- Whether two payloads mean the same, as the engine compares them; absent and null are the same.
CREATE FUNCTION pawl.same_payload(a json, b json) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(a::text, 'null') = coalesce(b::text, 'null') THEN
        RETURN true;
    END IF;
    RETURN coalesce(a::jsonb, 'null') = coalesce(b::jsonb, 'null');
EXCEPTION
    -- What jsonb cannot hold, such as \u0000, is compared as it is written, which refuses more.
    WHEN OTHERS THEN
        RETURN false;
END
$$;

-- Refuses a key that belongs to another job: one of another kind, without the plan that is asked for,
-- or with another payload or, where both have a fingerprint, another fingerprint. Of a redacted job
-- only the kind is left.
--
-- This is the rule of core (spec_check_repeat), a second time: pawl_submit returns the id of the job
-- that has the key, within a transaction of the application. When the engine takes submissions in,
-- that transaction has ended, and nobody could be told any more that the id was of another job.
-- store/test_postgres_submit.c holds the two against each other.
CREATE FUNCTION pawl.check_repeat(key text, kind text, payload json, options json, old_kind text,
                                  old_payload json, old_options json, planned boolean,
                                  redacted boolean)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF kind COLLATE "C" <> old_kind COLLATE "C" THEN
        RAISE EXCEPTION 'pawl_submit: the idempotency_key "%" belongs to a job of kind "%", not "%"',
            key, old_kind, kind USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF redacted THEN
        RETURN;
    END IF;
    IF options ->> 'plan' IS NOT NULL AND NOT planned THEN
        RAISE EXCEPTION 'pawl_submit: the idempotency_key "%" belongs to a job without a plan',
            key USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF options ->> 'fingerprint' IS NOT NULL AND old_options ->> 'fingerprint' IS NOT NULL THEN
        IF lower(options ->> 'fingerprint') <> lower(old_options ->> 'fingerprint') THEN
            RAISE EXCEPTION 'pawl_submit: the idempotency_key "%" belongs to a job with another '
                'fingerprint', key USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN;
    END IF;
    IF NOT pawl.same_payload(payload, old_payload) THEN
        RAISE EXCEPTION 'pawl_submit: the idempotency_key "%" belongs to a job with another payload',
            key USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

REVOKE ALL ON FUNCTION pawl.same_payload(json, json) FROM PUBLIC;
REVOKE ALL ON FUNCTION pawl.check_repeat(text, text, json, json, text, json, json, boolean,
                                   boolean) FROM PUBLIC;

-- As before, but a key that belongs to another job is refused.
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
            SELECT j.id, j.kind, j.redacted, e.payload AS spec,
                coalesce((j.state ->> 'plan_version')::int8, 0) > 0 AS planned
            INTO old FROM pawl.jobs j
            LEFT JOIN pawl.job_events e ON e.job_id = j.id AND e.version = 1
            WHERE j.queue = queue_name AND j.idempotency_key = key;
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

-- Workers that have registered, also while they hold no lease.
CREATE TABLE pawl.workers (
    id text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    state json NOT NULL,
    CONSTRAINT workers_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX workers_expires_at ON pawl.workers (expires_at);

-- Reserved, so that large tables are migrated once. Nothing writes these yet, and columns that are
-- NULL take no room in a row. README.md of src/store says what each is for.
ALTER TABLE pawl.jobs ADD COLUMN parent_id uuid;
ALTER TABLE pawl.jobs ADD COLUMN root_id uuid;
ALTER TABLE pawl.jobs ADD COLUMN schedule_id text COLLATE "C";
ALTER TABLE pawl.jobs ADD COLUMN dedupe_key text COLLATE "C";

CREATE TABLE pawl.limits (
    name text COLLATE "C" PRIMARY KEY,
    version int8 NOT NULL,
    settings json NOT NULL
);

-- One row a key of a limit; the key "" stands for a limit that has none. `used` counts live leases
-- under the row's own lock, `arrival` is the theoretical arrival time of GCRA.
CREATE TABLE pawl.limit_keys (
    limit_name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    used int4 NOT NULL,
    arrival int8 NOT NULL,
    closed_until int8 NOT NULL,
    PRIMARY KEY (limit_name, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE pawl.schedules (
    id text COLLATE "C" PRIMARY KEY,
    version int8 NOT NULL,
    next_at int8 NOT NULL,
    state json NOT NULL
);

-- The stream of a schedule.
CREATE TABLE pawl.schedule_events (
    schedule_id text COLLATE "C" NOT NULL,
    version int8 NOT NULL,
    at int8 NOT NULL,
    type text NOT NULL,
    payload json,
    PRIMARY KEY (schedule_id, version)
);

-- The end of a child, written with it and counted later: no end waits for the parent's row.
CREATE TABLE pawl.child_ends (
    parent_id uuid NOT NULL,
    child_id uuid NOT NULL,
    status int4 NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);

-- Lines of workers, outside of the stream and its chain.
CREATE TABLE pawl.job_logs (
    job_id uuid NOT NULL,
    seq int8 NOT NULL,
    at int8 NOT NULL,
    attempt int8 NOT NULL,
    level int4 NOT NULL,
    step text COLLATE "C",
    text text NOT NULL,
    PRIMARY KEY (job_id, seq)
);
