--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: pawl; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA pawl;


--
-- Name: check_name(text, text); Type: FUNCTION; Schema: pawl; Owner: -
--

CREATE FUNCTION pawl.check_name(what text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
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


--
-- Name: option_name(json, text); Type: FUNCTION; Schema: pawl; Owner: -
--

CREATE FUNCTION pawl.option_name(options json, what text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
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


--
-- Name: pawl_submit(text, json, json); Type: FUNCTION; Schema: pawl; Owner: -
--

CREATE FUNCTION pawl.pawl_submit(kind text, payload json DEFAULT NULL::json, options json DEFAULT NULL::json) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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


--
-- Name: pawl_submit(text, json, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.pawl_submit(kind text, payload json DEFAULT NULL::json, options json DEFAULT NULL::json) RETURNS text
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$SELECT pawl.pawl_submit($1, $2, $3)$_$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: attended; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.attended (
    one boolean NOT NULL,
    at bigint NOT NULL,
    CONSTRAINT attended_one_check CHECK (one)
);


--
-- Name: batches; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.batches (
    session uuid NOT NULL,
    batch bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    fenced boolean DEFAULT false NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: job_claims; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_claims (
    job_id uuid NOT NULL,
    step integer NOT NULL,
    attempt bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    beat_at bigint NOT NULL,
    due_at bigint NOT NULL,
    worker_id text COLLATE pg_catalog."C",
    resource_id text COLLATE pg_catalog."C",
    progress json,
    cursor text
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: job_effects; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_effects (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    open boolean NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    step text COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    state json NOT NULL
);


--
-- Name: job_events; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_events (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    xact xid8 DEFAULT GREATEST((((((pg_current_xact_id())::text)::bigint + 1))::text)::xid8, pg_snapshot_xmax(pg_current_snapshot())) NOT NULL,
    seq bigint NOT NULL,
    redacted boolean DEFAULT false NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    payload json,
    actor text COLLATE pg_catalog."C",
    cause text COLLATE pg_catalog."C",
    correlation_id text COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    hash bytea NOT NULL,
    id uuid
)
WITH (autovacuum_vacuum_scale_factor='0.05');


--
-- Name: job_events_seq_seq; Type: SEQUENCE; Schema: pawl; Owner: -
--

ALTER TABLE pawl.job_events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pawl.job_events_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: job_signals; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_signals (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    delivered boolean NOT NULL,
    correlation_key text COLLATE pg_catalog."C",
    signal_id text COLLATE pg_catalog."C",
    payload json
);


--
-- Name: job_steps; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_steps (
    job_id uuid NOT NULL,
    ordinal integer NOT NULL,
    state_number integer NOT NULL,
    lane integer,
    rank integer NOT NULL,
    run_at bigint NOT NULL,
    due_at bigint NOT NULL,
    leased boolean NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    asking_key text COLLATE pg_catalog."C",
    children integer[] NOT NULL,
    plan json NOT NULL,
    state json NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05');


--
-- Name: job_telemetry; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.job_telemetry (
    job_id uuid NOT NULL,
    at bigint NOT NULL,
    n bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    payload json,
    actor text COLLATE pg_catalog."C",
    cause text COLLATE pg_catalog."C",
    correlation_id text COLLATE pg_catalog."C"
);


--
-- Name: job_telemetry_n_seq; Type: SEQUENCE; Schema: pawl; Owner: -
--

ALTER TABLE pawl.job_telemetry ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pawl.job_telemetry_n_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 100
);


--
-- Name: jobs; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.jobs (
    id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
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
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    agent_id text COLLATE pg_catalog."C",
    goal text,
    correlation_id text COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    labels json,
    asking boolean DEFAULT false NOT NULL,
    shelf integer DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='1', fillfactor='35');


--
-- Name: kinds; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    settings json NOT NULL
);


--
-- Name: lanes; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.lanes (
    number integer NOT NULL,
    hash bytea NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: lanes_given_back; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.lanes_given_back (
    one boolean NOT NULL,
    era bigint NOT NULL,
    highest integer NOT NULL,
    CONSTRAINT lanes_given_back_one_check CHECK (one)
);


--
-- Name: purged; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.purged (
    job_id uuid NOT NULL,
    version bigint NOT NULL,
    head bytea NOT NULL
);


--
-- Name: queues; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.queues (
    queue text NOT NULL COLLATE pg_catalog."C",
    paused boolean NOT NULL
);


--
-- Name: ready; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.ready (
    lane integer NOT NULL,
    rank integer NOT NULL,
    run_at bigint NOT NULL,
    job_id uuid NOT NULL,
    step integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_vacuum_cost_delay='0');


--
-- Name: requests; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.requests (
    id bytea NOT NULL,
    at bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    body_hash bytea NOT NULL,
    answer bytea
);
ALTER TABLE ONLY pawl.requests ALTER COLUMN answer SET STORAGE EXTERNAL;


--
-- Name: resources; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.resources (
    id text NOT NULL COLLATE pg_catalog."C",
    expires_at timestamp with time zone NOT NULL,
    state json NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05');


--
-- Name: schema; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.schema (
    version bigint NOT NULL,
    usable_from bigint NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: submissions; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.submissions (
    id uuid NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    idempotency_key text COLLATE pg_catalog."C",
    payload json,
    options json
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: submissions_seq_seq; Type: SEQUENCE; Schema: pawl; Owner: -
--

ALTER TABLE pawl.submissions ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pawl.submissions_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: timers; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.timers (
    kind smallint NOT NULL,
    step integer NOT NULL,
    at bigint NOT NULL,
    job_id uuid NOT NULL,
    lane integer,
    rank integer
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');


--
-- Name: tokens; Type: TABLE; Schema: pawl; Owner: -
--

CREATE TABLE pawl.tokens (
    id uuid NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    scopes text NOT NULL,
    queues json NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone
);


--
-- Data for Name: attended; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.attended VALUES
	(true, 1794964145509);


--
-- Data for Name: batches; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: job_claims; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.job_claims VALUES
	('01a1ec33-45bb-7f87-92ad-9db7a4f4efcb', -1, 1, '2026-11-19 01:09:05.599+00', 1794964145599, 1795050545599, 'w1', NULL, NULL, NULL),
	('01a1ec33-45d0-7287-9363-1705e40dc9a2', -1, 1, '2026-11-19 01:09:05.633+00', 1794964145633, 1795050545633, 'w1', NULL, NULL, NULL);


--
-- Data for Name: job_effects; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.job_effects VALUES
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 4, false, 'pay', NULL, 'pay', '{"attempt":1,"epoch":1,"called_at":"2026-11-18T01:09:05.908Z","input_hash":"5615b0992d31e867983e4de16f679c74","returned":true,"result":{"charge": "c1"}}'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 6, true, 'mail', NULL, 'mail', '{"attempt":1,"epoch":1,"called_at":"2026-11-18T01:09:05.928Z","input_hash":"b49177e05868b7af8e82a644c1ce20e5"}');


--
-- Data for Name: job_events; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.job_events OVERRIDING SYSTEM VALUE VALUES
	('01a1ec33-459c-718d-8f63-7c8f0762e93b', 1, '2026-11-18 01:09:05.565+00', '735', 1, false, 'job_created', '{"kind":"queued","queue":"q-queued","payload":{"n": 1.1, "name": "queued"},"idempotency_key":"k1","retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail","correlation_id":"order-1","labels":{"customer": "c17"},"agent_id":"agnes","goal":"say hello"}', 'http', 'submit', 'order-1', '\x9e0aa41a42573e487059d83f565896d55a0564908d1bf6e416b73cb3ae42cfd5', '\x4632225a7fe323d6a1bd82c254772dcd19587b61165fe032ac563cc60d701a47', '4632225a-7fe3-83d6-a1bd-82c254772dcd'),
	('01a1ec33-45b4-73e3-8734-e159676d9099', 1, '2026-11-18 01:09:05.589+00', '737', 2, false, 'job_created', '{"kind":"scheduled","queue":"q-scheduled","payload":{"n": 1.1, "name": "scheduled"},"run_at":"2036-11-15T01:09:05.589Z","retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\xa866581fb6f95a26f6eb6ff3340f06f0611d31380b6bc79156461b619dd7bc21', '\x151615ec0c915080dbee327df8f4a284aa5a153e6839e9fe13e8fff8f7a58978', '151615ec-0c91-8080-9bee-327df8f4a284'),
	('01a1ec33-45bb-7f87-92ad-9db7a4f4efcb', 1, '2026-11-18 01:09:05.596+00', '738', 3, false, 'job_created', '{"kind":"leased","queue":"q-leased","payload":{"n": 1.1, "name": "leased"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\xde0c3edb5b50cd934e2deaf8b0094b4f5726107ea476afec36686a2217e882a9', '\xdc244f26f4dc8fb3cfc000e27d5e2663084300298ae355254d27c185c7c870c8', 'dc244f26-f4dc-8fb3-8fc0-00e27d5e2663'),
	('01a1ec33-45bb-7f87-92ad-9db7a4f4efcb', 2, '2026-11-18 01:09:05.599+00', '740', 4, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"623f441b9a61af3e5a6d6e260b31dea3","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"expires_at":"2026-11-19T01:09:05.599Z"}', 'w1', 'claim', NULL, '\x7c49d08578df5cc29fb4e4846453948d2daeb1b814b27e401cf0f706e81206c1', '\xa617a8743983e6caa7155c7f12ba3fd210353a2acc42541f58c64245e0f9daba', 'a617a874-3983-86ca-a715-5c7f12ba3fd2'),
	('01a1ec33-45d0-7287-9363-1705e40dc9a2', 1, '2026-11-18 01:09:05.617+00', '743', 5, false, 'job_created', '{"kind":"running","queue":"q-running","payload":{"n": 1.1, "name": "running"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x1397409ba8a3a416a60c0aec683e4e4d090891fd8965f51f0326b95cee8309a9', '\xe8bc44baffbec6ab2cfc8dbcf7ac18d67a6f824518ea6a252c1fb4fbb38f130f', 'e8bc44ba-ffbe-86ab-acfc-8dbcf7ac18d6'),
	('01a1ec33-45d0-7287-9363-1705e40dc9a2', 2, '2026-11-18 01:09:05.633+00', '745', 6, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"f8a0dbce5e5f30c6c92847bfe0381e98","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"expires_at":"2026-11-19T01:09:05.633Z"}', 'w1', 'claim', NULL, '\x60dc14a268e48125691cc680c5295986ce5bc413326553466fc584221129149d', '\x77f922e633b9bc2d7e3493afe09b9b5c98b0bcdbddc910f2103084add80ac771', '77f922e6-33b9-8c2d-be34-93afe09b9b5c'),
	('01a1ec33-45d0-7287-9363-1705e40dc9a2', 3, '2026-11-18 01:09:05.633+00', '745', 7, false, 'job_running', NULL, 'w1', 'claim', NULL, '\xbb768b27d50e60edbc11ac36938dc8e43d51acc29a5e3499dace05a6badc22df', '\x8d1209909afe5b204d342325bf6b967e5dd25443638a15141562b8a239fb8fb4', '8d120990-9afe-8b20-8d34-2325bf6b967e'),
	('01a1ec33-45ed-7497-a1a6-4006a54de453', 1, '2026-11-18 01:09:05.645+00', '747', 8, false, 'job_created', '{"kind":"waiting","queue":"q-waiting","payload":{"n": 1.1, "name": "waiting"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x234fb3f67b5f7e10e981f3bf5ee4d580e42abaff4b1140fed356dc32fcfaf6ca', '\x780731de939184124af52ea9912d088c23051d990e61ae5e4194dd4aa814bf39', '780731de-9391-8412-8af5-2ea9912d088c'),
	('01a1ec33-45ed-7497-a1a6-4006a54de453', 2, '2026-11-18 01:09:05.659+00', '749', 9, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"cd9598582941d0082168097e46af9ba7","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.659Z"}', 'w1', 'claim', NULL, '\xb6247d3ce78d930ab94e221113ed53a046edd120258d06574ef47321fabf371d', '\xd8e16b053d733f7abf7f78ff7fa53e267980e57fe1df310ac5b9d72fbd5e13c3', 'd8e16b05-3d73-8f7a-bf7f-78ff7fa53e26'),
	('01a1ec33-45ed-7497-a1a6-4006a54de453', 3, '2026-11-18 01:09:05.659+00', '749', 10, false, 'job_running', NULL, 'w1', 'claim', NULL, '\x72f234cbde452e3f0ffb3c2ec59511c35204d50abe709b818cd4732e6ea4f418', '\xae0c167a986bc5ed8f2dbdc9426e34061eb14c3ea1c7f39080fb21b9b600612b', 'ae0c167a-986b-85ed-8f2d-bdc9426e3406'),
	('01a1ec33-45ed-7497-a1a6-4006a54de453', 4, '2026-11-18 01:09:05.67+00', '751', 11, false, 'job_waiting', '{"type":"human","correlation_key":"ok","prompt":"Refund?","choices":["yes", "no"]}', 'w1', 'wait#1', NULL, '\x59aa3a710b676e97c766d083ab1e9f02273294701cd5e7a78970c23f1e425354', '\xd038199ac3d4ff77191d171f16abad22c7bff5eb675f31844b3fddad7190515a', 'd038199a-c3d4-8f77-991d-171f16abad22'),
	('01a1ec33-4616-7f1e-8b87-ee04622447b9', 1, '2026-11-18 01:09:05.687+00', '753', 12, false, 'job_created', '{"kind":"plainly-waiting","queue":"q-plainly-waiting","payload":{"n": 1.1, "name": "plainly-waiting"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x00f953bd1610cd0f8b3927225fd48d42dc4d42db5aa1cc2240645ec70997a858', '\xc9755e362ab52ddc6adb3135d4a9e96886315f6d1bd4dc4040ca61fff9b4667e', 'c9755e36-2ab5-8ddc-aadb-3135d4a9e968'),
	('01a1ec33-4616-7f1e-8b87-ee04622447b9', 2, '2026-11-18 01:09:05.702+00', '755', 13, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"d667cbef77843679d1a7800049dacdf1","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.702Z"}', 'w1', 'claim', NULL, '\x589ad68eac8c9b2ff8aa24dacd0cd7e301a9fef5fc39c9623bdcf086971592c2', '\x14d7b0c8759fc07efc0ec508f5161408ae586a349a345dacf9654ea7cff57b7e', '14d7b0c8-759f-807e-bc0e-c508f5161408'),
	('01a1ec33-4616-7f1e-8b87-ee04622447b9', 3, '2026-11-18 01:09:05.702+00', '755', 14, false, 'job_running', NULL, 'w1', 'claim', NULL, '\x72c63c91ec8357c4cab441a30d6cb43e4bb969a3a62ded7ff2b935d3b0c4e86b', '\xf8eca2ca1475e55401c694171ddb4a71533c7e94fe6861d12aaccac96fb2e905', 'f8eca2ca-1475-8554-81c6-94171ddb4a71'),
	('01a1ec33-4616-7f1e-8b87-ee04622447b9', 4, '2026-11-18 01:09:05.712+00', '757', 15, false, 'job_waiting', '{"type":"human","correlation_key":"ok","prompt":"Ship it?"}', 'w1', 'wait#1', NULL, '\x660e6e3d68bdc134e7eeeb66350836cd2573e19be5d9de699f6171e6617abd7b', '\x926eb9c197dd2aa6ac82692e35c1ec6cd494c89b76e05ece9abd9f6aa43bd280', '926eb9c1-97dd-8aa6-ac82-692e35c1ec6c'),
	('01a1ec33-463c-70f7-82f6-364b4ce89e64', 1, '2026-11-18 01:09:05.724+00', '759', 16, false, 'job_created', '{"kind":"parked","queue":"q-parked","payload":{"n": 1.1, "name": "parked"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\xf431c87992be06df88e432637f9ccc818fb07b3204b141edaa076d18691ba1a4', '\x10aaf3cd6610cc974de30c29005f858b29a21ef698aa1794116017818b3c7cc7', '10aaf3cd-6610-8c97-8de3-0c29005f858b'),
	('01a1ec33-463c-70f7-82f6-364b4ce89e64', 2, '2026-11-18 01:09:05.733+00', '761', 17, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"8cddef5303ca4672e398a8dae66eba9b","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.733Z"}', 'w1', 'claim', NULL, '\xb5006dd85f22a83cff696991498dc85b4c2dab3a9a4829ad25df61e02ce8aca3', '\xf2fa14bc1950a1bdd45b24253e5ce9eb813e9bfca593525b5f70eb57658d6be2', 'f2fa14bc-1950-81bd-945b-24253e5ce9eb'),
	('01a1ec33-463c-70f7-82f6-364b4ce89e64', 3, '2026-11-18 01:09:05.733+00', '761', 18, false, 'job_running', NULL, 'w1', 'claim', NULL, '\x9920a0020c280678fa98498ba50a0a4f5ed4c57909b09209da48232d93e13607', '\xf7aabd255d5c3b5bd816a3b9aa98ca64e629b2e5d8c2eb9e17fbcc332f2a3f7d', 'f7aabd25-5d5c-8b5b-9816-a3b9aa98ca64'),
	('01a1ec33-463c-70f7-82f6-364b4ce89e64', 4, '2026-11-18 01:09:05.738+00', '763', 19, false, 'job_waiting', '{"type":"webhook","correlation_key":"hook","parked":true}', 'w1', 'wait#1', NULL, '\xb1d8c95a193da0b781bc6596e5b2de6eb1075fe43dbf143c22d2400a1067df86', '\x96f0782c9747cc46c810205fc182c4c42cedb62911b97aa5451f924a3a987053', '96f0782c-9747-8c46-8810-205fc182c4c4'),
	('01a1ec33-4652-7514-84fe-d7d93679508a', 1, '2026-11-18 01:09:05.746+00', '765', 20, false, 'job_created', '{"kind":"retrying","queue":"q-retrying","payload":{"n": 1.1, "name": "retrying"},"retry":{"max_attempts":5,"strategy":"fixed","initial_ms":86400000,"factor":2,"max_ms":86400000,"jitter":"none","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x27d6a4c86d180c4f67903365bf706aefba200d2bd7d003f0cecadb011d790ad7', '\xb832d589a4a0c0e4aff54eaddc3b7c70d2efdcbb5bd899883da0f9d5137fa54f', 'b832d589-a4a0-80e4-aff5-4eaddc3b7c70'),
	('01a1ec33-4652-7514-84fe-d7d93679508a', 2, '2026-11-18 01:09:05.75+00', '767', 21, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"f910a53d73e1178fce9a0005e6aa30d7","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.750Z"}', 'w1', 'claim', NULL, '\x70e838c137baddcb45c45779016fe5d777cd49607c4666777f4e99ee04563bcf', '\x000cf8720c899d546cdcdc415b476c411e39419cf21c459632f22606704c89be', '000cf872-0c89-8d54-acdc-dc415b476c41'),
	('01a1ec33-4652-7514-84fe-d7d93679508a', 3, '2026-11-18 01:09:05.75+00', '767', 22, false, 'job_running', NULL, 'w1', 'claim', NULL, '\xa62312a1eed6ee2027060a75de06dc99b1658bbc44d0f7dca42b81ba7850abdc', '\x4ae0bf40ee4d681dc10d6b9327e9a0f5df74f5dafc444e8286f3fb5cd6f09271', '4ae0bf40-ee4d-881d-810d-6b9327e9a0f5'),
	('01a1ec33-4652-7514-84fe-d7d93679508a', 4, '2026-11-18 01:09:05.773+00', '769', 23, false, 'job_requeued', '{"reason":"failed","error":{"class":"transient","message":"not yet"},"failures":1,"last_lease_expires_at":"2026-11-18T01:09:35.750Z","not_before":"2026-11-19T01:09:05.773Z"}', 'w1', 'fail#1', NULL, '\x645e32d83549ae0b3df48e3d8ab7de7a2b1da87a4708a3a4c2752b8f8ed107b9', '\x01abe9ce1312c43043ee8eb160fb86525a8722ea9654e40d05ab7c845da3faec', '01abe9ce-1312-8430-83ee-8eb160fb8652'),
	('01a1ec33-4678-7092-9d12-a6159d84fb65', 1, '2026-11-18 01:09:05.784+00', '771', 24, false, 'job_created', '{"kind":"completed","queue":"q-completed","payload":{"n": 1.1, "name": "completed"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x01621b70b99c415cc322b1921d6b59a5a6cebc9aa3601d244e295021f8e2b788', '\xb41f1d08d109915cdcae125db85bf24d50a18e1b0513da00686509c4009ce179', 'b41f1d08-d109-815c-9cae-125db85bf24d'),
	('01a1ec33-4678-7092-9d12-a6159d84fb65', 2, '2026-11-18 01:09:05.792+00', '773', 25, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"88ffe57384c471c5a4eb4f65501d6c42","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.792Z"}', 'w1', 'claim', NULL, '\xbea7e8b74e5614886e7bde4757a4b53676aef807e5c755196108ba88883c050e', '\xe7288fc0edb0f87343383cbdd380558c48716e826161257639fca30617d8f645', 'e7288fc0-edb0-8873-8338-3cbdd380558c'),
	('01a1ec33-4678-7092-9d12-a6159d84fb65', 3, '2026-11-18 01:09:05.792+00', '773', 26, false, 'job_running', NULL, 'w1', 'claim', NULL, '\x4d38e9739bcb26e2ddcc01d07615fde7ea3c205d70eaf25b00d3f8bf3943657a', '\x424a0aca3a0c976c9a99e888177c1cfaaec463df9d8955a51fdaf999511d220c', '424a0aca-3a0c-876c-9a99-e888177c1cfa'),
	('01a1ec33-4678-7092-9d12-a6159d84fb65', 4, '2026-11-18 01:09:05.797+00', '775', 27, false, 'job_completed', '{"result":{"done": true}}', 'w1', 'complete#1', NULL, '\x7e8f576b38bd2f29b8ca2e29fcd9fc35c75f76fd27aa16db83d9719c978864c2', '\x3c52150f48cb0192b0fc60c1579b5029b8d16cbaff038d07b84c8fb06a507d87', '3c52150f-48cb-8192-b0fc-60c1579b5029'),
	('01a1ec33-4694-75a3-9a2f-8cccc4d172c4', 1, '2026-11-18 01:09:05.812+00', '777', 28, false, 'job_created', '{"kind":"failed","queue":"q-failed","payload":{"n": 1.1, "name": "failed"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x9f44b346d1d03b5409272526fb3db26c1d07abdb785b042f3181bc8279b5d550', '\x47b5e8f3f3dbf2d16c0affd09773e58f0e3320b4c1f07c9a6e79fc0dfa36a71f', '47b5e8f3-f3db-82d1-ac0a-ffd09773e58f'),
	('01a1ec33-4694-75a3-9a2f-8cccc4d172c4', 2, '2026-11-18 01:09:05.818+00', '779', 29, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"a9ab2c8158619a8fae41f8e55fddbb90","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.818Z"}', 'w1', 'claim', NULL, '\xbdf0dc560606abaa83d223e719b52dfa2ba192431106c50f6a6448978288b09e', '\x8079e4b76bc4681b9bf0b3c1c692cb8c7380ab7e3da54bb769030972a9819c11', '8079e4b7-6bc4-881b-9bf0-b3c1c692cb8c'),
	('01a1ec33-4694-75a3-9a2f-8cccc4d172c4', 3, '2026-11-18 01:09:05.818+00', '779', 30, false, 'job_running', NULL, 'w1', 'claim', NULL, '\xa4cd497367586a1038aa267a7bf4e10977b91d8dc395fb0836c069fc4aaff692', '\x36131a8c8236730cba0de00fbaf32fff3fbc286e24b0cd093fa7564aa3a8e083', '36131a8c-8236-830c-ba0d-e00fbaf32fff'),
	('01a1ec33-4694-75a3-9a2f-8cccc4d172c4', 4, '2026-11-18 01:09:05.82+00', '780', 31, false, 'job_failed', '{"reason":"failed","error":{"class":"permanent","message":"never","details":{"x": 1}},"failures":1}', 'w1', 'fail#1', NULL, '\x10e312d9c72401acab0b49042e1d00bb1b2f2fc2b14752113e68175ab2f68c96', '\xc172e06a01e1df788d101042e590e7d4f403cee35c29d6e494d61f11b1ebb8d4', 'c172e06a-01e1-8f78-8d10-1042e590e7d4'),
	('01a1ec33-46a3-7ebe-9c98-ac19cd9a314e', 1, '2026-11-18 01:09:05.828+00', '782', 32, false, 'job_created', '{"kind":"cancelled","queue":"q-cancelled","payload":{"n": 1.1, "name": "cancelled"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x3f0196009f6afcd68a87efe749fd297fbfb4a9aaa034b4c8074add5c9bad6f1a', '\xeea6f8d3146808cef7e177a1b91d3ad994e9736e6f6c541b21e3187ea8fb7dbc', 'eea6f8d3-1468-88ce-b7e1-77a1b91d3ad9'),
	('01a1ec33-46a3-7ebe-9c98-ac19cd9a314e', 2, '2026-11-18 01:09:05.835+00', '785', 33, false, 'job_cancelled', '{"reason":"no more","mode":"soft"}', 'http', 'cancel', NULL, '\x281a68bb10acb9e16b0a22a91332670637536c1026758b62a41616bc09244929', '\xc1eba7cc944af9b229bcff8fcccb70803ec09e11f876517c03d243e13c237813', 'c1eba7cc-944a-89b2-a9bc-ff8fcccb7080'),
	('01a1ec33-46bc-73eb-92c0-97ac80f7a5e4', 1, '2026-11-18 01:09:05.852+00', '787', 34, false, 'job_created', '{"kind":"dead","queue":"q-dead","payload":{"n": 1.1, "name": "dead"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x62e5fbc0580a331daef945142408e1b98a843df883303f2a80c045e145a06315', '\xd72c160b740076207ea94c6fe95609398fbc114aa110eff6f53155d1d5ce3743', 'd72c160b-7400-8620-bea9-4c6fe9560939'),
	('01a1ec33-46bc-73eb-92c0-97ac80f7a5e4', 2, '2026-11-18 01:09:05.854+00', '788', 35, false, 'job_dead_lettered', '{"reason_code":"policy_violation","error":{"class":"permanent","message":"by hand"}}', 'http', 'dead_letter', NULL, '\x14170aecc411e0f9d127f6479526b795233138b142b2c9a8f2424a86543c92b2', '\x602474a104e17458b2e61c5b47fdc9ce42954d861b1ecf12d7a9e2bde8eb0eda', '602474a1-04e1-8458-b2e6-1c5b47fdc9ce'),
	('01a1ec33-46c9-7a66-9af2-91554afe5586', 1, '2026-11-18 01:09:05.866+00', '791', 36, false, 'job_created', '{"kind":"exhausted","queue":"q-exhausted","payload":{"n": 1.1, "name": "exhausted"},"retry":{"max_attempts":1,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\xc5b47ceee8d92c8b9a2d54163166bc8068fa2e82081e62b0df35c6100deb4d6d', '\x8ec80735c95e52c52949a769d47b2db566af1c5ee57c6c8d65b13ca2b2b05100', '8ec80735-c95e-82c5-a949-a769d47b2db5'),
	('01a1ec33-46c9-7a66-9af2-91554afe5586', 2, '2026-11-18 01:09:05.871+00', '793', 37, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"dcde5705ecf2353c454bb8de196f67fc","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.871Z"}', 'w1', 'claim', NULL, '\x3ecd0bf011281494d1f47469d3c0890389444228acf6b6b03c178a97e3a78b73', '\x7758bc916c9fedee5b6f79628ed0e1ed6dde14f16ba0ad8302a120cfb4a9fece', '7758bc91-6c9f-8dee-9b6f-79628ed0e1ed'),
	('01a1ec33-46c9-7a66-9af2-91554afe5586', 3, '2026-11-18 01:09:05.871+00', '793', 38, false, 'job_running', NULL, 'w1', 'claim', NULL, '\xf30d39a537d249223581e58c215dcdac4669f86ab5ea0108e88063ec7b6737a9', '\x7f1058d5a8a6f052698e55ed0a4c306094fcbe1d24b160f5186c06a400dcd2b5', '7f1058d5-a8a6-8052-a98e-55ed0a4c3060'),
	('01a1ec33-46c9-7a66-9af2-91554afe5586', 4, '2026-11-18 01:09:05.876+00', '795', 39, false, 'job_dead_lettered', '{"reason":"failed","reason_code":"exhausted_retries","error":{"class":"transient","message":"boom"},"failures":1,"attempts":1,"last_owner":"w1","last_lease_expires_at":"2026-11-18T01:09:35.871Z"}', 'w1', 'fail#1', NULL, '\xc1256a0ff0c6192636cd8518ebbcab2d78f8384a1a71e92ca79888d90aca4185', '\x25f9d7e2a6722aedbb1b18d409bb287c1c30402286350cbff4ea5f6660fe8353', '25f9d7e2-a672-8aed-bb1b-18d409bb287c'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 1, '2026-11-18 01:09:05.889+00', '797', 40, false, 'job_created', '{"kind":"effects","queue":"q-effects","payload":{"n": 1.1, "name": "effects"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"ask"}', 'http', 'submit', NULL, '\xc35b081b3a36e3fb2fa55b0d1f7117271c4c6c4b0c1b3576afd96f2df4bf602e', '\x889f1d25afe83ad91215dd723f336694aba0c0b7716c70f2dccfb88bbc45128a', '889f1d25-afe8-8ad9-9215-dd723f336694'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 2, '2026-11-18 01:09:05.899+00', '799', 41, false, 'job_leased', '{"worker_id":"w1","attempt":1,"token_hash":"75d188e65d8d6ab4f6e415d1f4b7b534","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"expires_at":"2026-11-19T01:09:05.899Z"}', 'w1', 'claim', NULL, '\x9ea7b8bcd39b5774a12fe8cf5eb1aa56f0676cedab06f6c94043611aa40d72e0', '\xbb9363127fbe7fec60380c0ba1b2c22a6aef6dbc86f2026f2b1632b92b0a1343', 'bb936312-7fbe-8fec-a038-0c0ba1b2c22a'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 3, '2026-11-18 01:09:05.899+00', '799', 42, false, 'job_running', NULL, 'w1', 'claim', NULL, '\x84f45f8aa10e25bad939dffbde9f4043d7197fb8fa24baaf73a98d876abf7496', '\x74fa10ffbbe2fd3d847207acf36e03aeb72f712fe21ae499bab6f4122b4f4025', '74fa10ff-bbe2-8d3d-8472-07acf36e03ae'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 4, '2026-11-18 01:09:05.908+00', '801', 43, false, 'tool_called', '{"attempt":1,"key":"pay","input_hash":"5615b0992d31e867983e4de16f679c74","input":{"cents": 4200}}', 'w1', 'effect_begin#1', NULL, '\xbcaaed8b1598e01c4889284ea916145052d418e7c135aa70696b05b0cb5c26f9', '\xd2b9a8b8f517362f47a74960d9ab9f9e1ab8bcaa9b9af67d8e03ebdba92d8d44', 'd2b9a8b8-f517-862f-87a7-4960d9ab9f9e'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 5, '2026-11-18 01:09:05.916+00', '803', 44, false, 'tool_returned', '{"key":"pay","result":{"charge": "c1"}}', 'w1', 'effect_commit#1', NULL, '\x51b5973897c5cfdb1dc8673cc84306aa59f72a9047943805fe9b9030733aa19b', '\xa7d7f9a55b796a4cdd7d803780b17abda62ba622b7496dc9550399511ce382f5', 'a7d7f9a5-5b79-8a4c-9d7d-803780b17abd'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 6, '2026-11-18 01:09:05.928+00', '805', 45, false, 'tool_called', '{"attempt":1,"key":"mail","input_hash":"b49177e05868b7af8e82a644c1ce20e5","input":"hi"}', 'w1', 'effect_begin#1', NULL, '\x2517ee23313beab4f30be2855c70d8c7cf164d1e6a3e59754f1995df5e62133e', '\x6e5485ad674a44063fd606238d63afedf4d196f20fce1c42fd36641bf9bab13b', '6e5485ad-674a-8406-bfd6-06238d63afed'),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', 7, '2026-11-18 01:09:05.933+00', '806', 46, false, 'job_requeued', '{"reason":"failed","error":{"class":"transient","message":"lost"},"failures":1,"last_lease_expires_at":"2026-11-19T01:09:05.899Z","not_before":"2026-11-18T01:09:05.934Z"}', 'w1', 'fail#1', NULL, '\x0a4e60ff30cbdab229316807c34338f4dd9155b841b904f739f7c7ee582c0467', '\xc9f7578b251044133ea79423ae6b7c76db536b2d9aa16edf92f80430ffaefc26', 'c9f7578b-2510-8413-bea7-9423ae6b7c76'),
	('01a1ec33-4712-76a1-8810-193a07ca31f0', 1, '2026-11-18 01:09:05.953+00', '811', 47, false, 'job_created', '{"kind":"signalled","queue":"q-signalled","payload":{"n": 1.1, "name": "signalled"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\xa53654863cde6184dc08945511939bf70d035ca4f01307eac55bbe4de177b6d7', '\x4b02cf1e0bec51385894e5d25de2280cd8b51bbcc729748f7129afa052e8f7c5', '4b02cf1e-0bec-8138-9894-e5d25de2280c'),
	('01a1ec33-4712-76a1-8810-193a07ca31f0', 2, '2026-11-18 01:09:05.964+00', '813', 48, false, 'signal_received', '{"correlation_key":"early","signal_id":"s1","payload":{"a": 1}}', 'http', 'signal', NULL, '\x75cea4baec6bd33038e4103425e396ecfb8c72435209873f72e3ed8367c7b64f', '\xb6b2ccc4c66b4b16fc6b2c6766d97f5ddbe7b6d963c161609a8b66d641547a32', 'b6b2ccc4-c66b-8b16-bc6b-2c6766d97f5d'),
	('01a1ec33-4737-76dd-b0dd-d5ca340d7a09', 1, '2026-11-18 01:09:05.976+00', '815', 49, true, 'job_created', NULL, 'http', 'submit', NULL, '\xe3f41acbadb378a85c770768963a08840ea5976b1fc9f24de76f18bdeeb2d364', '\xde93c4baddfc13149802c625db92e3376ccaaa5d2c818bbdf194e65296798a32', 'de93c4ba-ddfc-8314-9802-c625db92e337'),
	('01a1ec33-4737-76dd-b0dd-d5ca340d7a09', 2, '2026-11-18 01:09:05.984+00', '817', 50, true, 'job_leased', NULL, 'w1', 'claim', NULL, '\xcfc33f545da379c3ca2a83058eaf9bca2b74eea6b4ae281556c81fd0249ca71f', '\xdb58c4efa3ff9933e45efbf1f38fc7910c5c477e7e276b266456400cae249f6d', 'db58c4ef-a3ff-8933-a45e-fbf1f38fc791'),
	('01a1ec33-4737-76dd-b0dd-d5ca340d7a09', 3, '2026-11-18 01:09:05.984+00', '817', 51, true, 'job_running', NULL, 'w1', 'claim', NULL, '\x6614196077036dae0a11e32ea3323601b130af5eec6aefea8dd4abf7efbad69a', '\x0ad4c0cb08b6d65802bbc3f8a91f7ed0c21cb6fd41397617993b3c13fbc13689', '0ad4c0cb-08b6-8658-82bb-c3f8a91f7ed0'),
	('01a1ec33-4737-76dd-b0dd-d5ca340d7a09', 4, '2026-11-18 01:09:05.992+00', '819', 52, true, 'job_completed', NULL, 'w1', 'complete#1', NULL, '\xc4334b49141812c6b320c5b7f3d77cb19ddefad67d7b788f9dbc2d0a5529061a', '\x9dd020919a135a18bdff7b129ad54a0f907d0e50339071d160b0d9941a99c83e', '9dd02091-9a13-8a18-bdff-7b129ad54a0f'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 1, '2026-11-18 01:09:06.02+00', '823', 53, false, 'job_created', '{"kind":"planned","queue":"q-planned","payload":{"n": 1.1, "name": "planned"},"retry":{"max_attempts":20,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"},"in_doubt":"fail"}', 'http', 'submit', NULL, '\x790c6f08a84609b64fb4307ba1d3c3d0d8d2b75e2347d4ccddab075244f7176d', '\x43dce62ef7522f9141bf374a9ccc02457c7304316fc3f2a32532bc9ad65414b8', '43dce62e-f752-8f91-81bf-374a9ccc0245'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 2, '2026-11-18 01:09:06.02+00', '823', 54, false, 'plan_generated', '{"plan_version":1,"steps":[{"id":"a","kind":"s","retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"},{"id":"b","kind":"s","deps":["a"],"retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"},{"id":"ask","kind":"s","retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"}]}', 'http', 'submit', NULL, '\xdb49505f4b00447e6a6d22db31bef85a115715467122cb134d0e138c72674ff9', '\x4a2d7b56c7071ff3aa3f77b3e18d8cb4ccc5a15f0bf71496d1375eb333fdf2d1', '4a2d7b56-c707-8ff3-aa3f-77b3e18d8cb4'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 3, '2026-11-18 01:09:06.02+00', '823', 55, false, 'step_waiting_deps', '{"step":"b"}', 'http', 'submit', NULL, '\x593784cd2f8a8108366af7deb046af7c4b93bfce89ed235e188a6a310bb8b83d', '\x57131489884183b879ec7f19fee3d54f5b251f5495df7ef73e01ee1833c72d58', '57131489-8841-83b8-b9ec-7f19fee3d54f'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 4, '2026-11-18 01:09:06.037+00', '827', 56, false, 'job_running', '{"attempt":1}', 'w2', 'step_claim:a', NULL, '\x166e9bef277b8fd57980bf3be1f05ad689cc39ed586dd8c53ee86a6819117781', '\xa4cb8e6fb977caef68bb62c6987985f70a382b02fcfe31711071f313b65864a6', 'a4cb8e6f-b977-8aef-a8bb-62c6987985f7'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 5, '2026-11-18 01:09:06.037+00', '827', 57, false, 'step_leased', '{"step":"a","worker_id":"w2","resource_id":"desk","attempt":1,"token_hash":"26755a6e1fe483f25ff0b4cd1b33c747","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:36.037Z"}', 'w2', 'step_claim:a', NULL, '\xf2566e4307a4309d4b314a7ae119d81753815bdf192cd0970dcf471bb2f6b504', '\x2cda389faaf4546f90a771791af933f28b7df51cf0c6dd97d3731effb5b77a08', '2cda389f-aaf4-846f-90a7-71791af933f2'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 6, '2026-11-18 01:09:06.037+00', '827', 58, false, 'step_running', '{"step":"a"}', 'w2', 'step_claim:a', NULL, '\x530e4802c88ca7edea3c0af8e6d2a0047ce00383dceaddd640d7e37e7d3b314c', '\x33fe892d07d85f859cb9b3b781aa02a5bb545dfae24f3ee9d12c39dae0b35167', '33fe892d-07d8-8f85-9cb9-b3b781aa02a5'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 7, '2026-11-18 01:09:06.061+00', '829', 59, false, 'step_succeeded', '{"step":"a","result":{"from": "a"}}', 'w2', 'complete:a#1', NULL, '\x1d08d1e6d477af1b9e32a7a206b37803b43909bdb2e7836178c0589a5b80e4c3', '\x2629464577514c91fb807304074aaf5ae905648837cfd46ac2e0e4074c507c2d', '26294645-7751-8c91-bb80-7304074aaf5a');


--
-- Data for Name: job_signals; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.job_signals VALUES
	('01a1ec33-4712-76a1-8810-193a07ca31f0', 2, false, 'early', 's1', '{"a": 1}');


--
-- Data for Name: job_steps; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.job_steps VALUES
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 2, 0, 17, 0, 1794964146020, 0, false, 'ask', NULL, '{}', '{"children":[],"spec":{"id":"ask","kind":"s","retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"}}', '{"state":0}'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 0, 4, NULL, 0, 0, 0, false, 'a', NULL, '{1}', '{"children":[1],"spec":{"id":"a","kind":"s","retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"}}', '{"state":4,"attempt":1,"lease":{"ended_by":5,"worker_id":"w2","resource_id":"desk","token_hash":"26755a6e1fe483f25ff0b4cd1b33c747","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:06.037Z"},"result":{"from": "a"}}'),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', 1, 1, 17, 0, 1794964146020, 0, false, 'b', NULL, '{}', '{"children":[],"spec":{"id":"b","kind":"s","deps":["a"],"retry":{"max_attempts":4,"strategy":"exponential","initial_ms":1000,"factor":2,"max_ms":30000,"jitter":"none"},"on_failure":"fail"}}', '{"state":1}');


--
-- Data for Name: job_telemetry; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: jobs; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.jobs VALUES
	('01a1ec33-459c-718d-8f63-7c8f0762e93b', '2026-11-18 01:09:05.565+00', '2026-11-18 01:09:05.565+00', 1, NULL, 0, 0, 0, 0, false, '\x4632225a7fe323d6a1bd82c254772dcd19587b61165fe032ac563cc60d701a47', '\xc20845b7048cf08b4f3530f6c04436f3', NULL, '{"epoch":1,"run_at":"2026-11-18T01:09:05.565Z"}', 'queued', 'q-queued', 'agnes', 'say hello', 'order-1', 'k1', '{"customer": "c17"}', false, 0),
	('01a1ec33-45b4-73e3-8734-e159676d9099', '2026-11-18 01:09:05.589+00', '2026-11-18 01:09:05.589+00', 1, NULL, 0, 0, 0, 0, false, '\x151615ec0c915080dbee327df8f4a284aa5a153e6839e9fe13e8fff8f7a58978', '\xfb22ede56533a957458ec72f61a9006b', NULL, '{"epoch":1,"run_at":"2036-11-15T01:09:05.589Z"}', 'scheduled', 'q-scheduled', NULL, NULL, NULL, NULL, NULL, false, 0),
	('01a1ec33-45bb-7f87-92ad-9db7a4f4efcb', '2026-11-18 01:09:05.596+00', '2026-11-18 01:09:05.599+00', 2, NULL, 8, 0, 0, 0, false, '\xa617a8743983e6caa7155c7f12ba3fd210353a2acc42541f58c64245e0f9daba', '\x175fb78d21db4ede13b66a1e2620a700', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.596Z","lease":{"live":true,"ended_by":0,"worker_id":"w1","token_hash":"623f441b9a61af3e5a6d6e260b31dea3","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"beat_at":"2026-11-18T01:09:05.599Z","expires_at":"2026-11-19T01:09:05.599Z","since":"2026-11-18T01:09:05.599Z"}}', 'leased', 'q-leased', NULL, NULL, NULL, NULL, NULL, false, 0),
	('01a1ec33-45d0-7287-9363-1705e40dc9a2', '2026-11-18 01:09:05.617+00', '2026-11-18 01:09:05.633+00', 3, NULL, 1, 0, 0, 0, false, '\x8d1209909afe5b204d342325bf6b967e5dd25443638a15141562b8a239fb8fb4', '\xdc6b1679fc6f5640e3be38b94d541c6a', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.617Z","lease":{"live":true,"ended_by":0,"worker_id":"w1","token_hash":"f8a0dbce5e5f30c6c92847bfe0381e98","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"beat_at":"2026-11-18T01:09:05.633Z","expires_at":"2026-11-19T01:09:05.633Z","since":"2026-11-18T01:09:05.633Z"}}', 'running', 'q-running', NULL, NULL, NULL, NULL, NULL, false, 0),
	('01a1ec33-45ed-7497-a1a6-4006a54de453', '2026-11-18 01:09:05.645+00', '2026-11-18 01:09:05.67+00', 4, NULL, 5, 0, 0, 0, false, '\xd038199ac3d4ff77191d171f16abad22c7bff5eb675f31844b3fddad7190515a', '\x5ffe90a3d34230c79287ca0ee3a17d27', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.645Z","lease":{"ended_by":8,"worker_id":"w1","token_hash":"cd9598582941d0082168097e46af9ba7","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.659Z"},"wait":{"type":"human","correlation_key":"ok","since":"2026-11-18T01:09:05.670Z","prompt":"Refund?","choices":["yes", "no"]}}', 'waiting', 'q-waiting', NULL, NULL, NULL, NULL, NULL, true, 5),
	('01a1ec33-4652-7514-84fe-d7d93679508a', '2026-11-18 01:09:05.746+00', '2026-11-18 01:09:05.773+00', 4, NULL, 7, 1, 0, 0, false, '\x01abe9ce1312c43043ee8eb160fb86525a8722ea9654e40d05ab7c845da3faec', '\xcf17e44a9501271e8373d82c385b3d43', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-19T01:09:05.773Z","lease":{"ended_by":6,"worker_id":"w1","token_hash":"f910a53d73e1178fce9a0005e6aa30d7","lease_ttl_ms":30000,"heartbeat_ms":15000,"expires_at":"2026-11-18T01:09:35.750Z","since":"2026-11-18T01:09:05.750Z"},"error":{"class":"transient","message":"not yet"}}', 'retrying', 'q-retrying', NULL, NULL, NULL, NULL, NULL, false, 7),
	('01a1ec33-4616-7f1e-8b87-ee04622447b9', '2026-11-18 01:09:05.687+00', '2026-11-18 01:09:05.712+00', 4, NULL, 5, 0, 0, 0, false, '\x926eb9c197dd2aa6ac82692e35c1ec6cd494c89b76e05ece9abd9f6aa43bd280', '\xc24acc173086cc1319b873a196a33e06', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.687Z","lease":{"ended_by":8,"worker_id":"w1","token_hash":"d667cbef77843679d1a7800049dacdf1","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.702Z"},"wait":{"type":"human","correlation_key":"ok","since":"2026-11-18T01:09:05.712Z","prompt":"Ship it?"}}', 'plainly-waiting', 'q-plainly-waiting', NULL, NULL, NULL, NULL, NULL, true, 5),
	('01a1ec33-463c-70f7-82f6-364b4ce89e64', '2026-11-18 01:09:05.724+00', '2026-11-18 01:09:05.738+00', 4, NULL, 6, 0, 0, 0, false, '\x96f0782c9747cc46c810205fc182c4c42cedb62911b97aa5451f924a3a987053', '\x000fad97a15a01020eba54df47678a7b', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.724Z","lease":{"ended_by":8,"worker_id":"w1","token_hash":"8cddef5303ca4672e398a8dae66eba9b","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.733Z"},"wait":{"type":"webhook","correlation_key":"hook","since":"2026-11-18T01:09:05.738Z"}}', 'parked', 'q-parked', NULL, NULL, NULL, NULL, NULL, false, 6),
	('01a1ec33-4678-7092-9d12-a6159d84fb65', '2026-11-18 01:09:05.784+00', '2026-11-18 01:09:05.797+00', 4, 2110324145797, 2, 0, 0, 0, false, '\x3c52150f48cb0192b0fc60c1579b5029b8d16cbaff038d07b84c8fb06a507d87', '\xc3a4b14328d097b2e5cf49c5c0c96b40', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.784Z","lease":{"ended_by":5,"worker_id":"w1","token_hash":"88ffe57384c471c5a4eb4f65501d6c42","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.792Z"},"result":{"done": true}}', 'completed', 'q-completed', NULL, NULL, NULL, NULL, NULL, false, 2),
	('01a1ec33-46c9-7a66-9af2-91554afe5586', '2026-11-18 01:09:05.866+00', '2026-11-18 01:09:05.876+00', 4, NULL, 9, 1, 5, 0, false, '\x25f9d7e2a6722aedbb1b18d409bb287c1c30402286350cbff4ea5f6660fe8353', '\x01bb9b5991254ee8ebd12afdbc7a0487', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.866Z","lease":{"ended_by":6,"worker_id":"w1","token_hash":"dcde5705ecf2353c454bb8de196f67fc","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.871Z"},"dead_letter":{"reason_code":"exhausted_retries","last_error":{"class":"transient","message":"boom"},"attempts":1,"last_owner":"w1","last_lease_expires_at":"2026-11-18T01:09:35.871Z","at":"2026-11-18T01:09:05.876Z"},"error":{"class":"transient","message":"boom"}}', 'exhausted', 'q-exhausted', NULL, NULL, NULL, NULL, NULL, false, 9),
	('01a1ec33-4694-75a3-9a2f-8cccc4d172c4', '2026-11-18 01:09:05.812+00', '2026-11-18 01:09:05.82+00', 4, NULL, 3, 1, 0, 0, false, '\xc172e06a01e1df788d101042e590e7d4f403cee35c29d6e494d61f11b1ebb8d4', '\x6fc97d161d4a33b45702977042f8af27', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.812Z","lease":{"ended_by":6,"worker_id":"w1","token_hash":"a9ab2c8158619a8fae41f8e55fddbb90","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.818Z"},"error":{"class":"permanent","message":"never","details":{"x": 1}}}', 'failed', 'q-failed', NULL, NULL, NULL, NULL, NULL, false, 3),
	('01a1ec33-46a3-7ebe-9c98-ac19cd9a314e', '2026-11-18 01:09:05.828+00', '2026-11-18 01:09:05.835+00', 2, 2110324145835, 4, 0, 0, 0, false, '\xc1eba7cc944af9b229bcff8fcccb70803ec09e11f876517c03d243e13c237813', '\xe29f2845bb1adf6f701ad7aaa332185e', NULL, '{"epoch":1,"run_at":"2026-11-18T01:09:05.828Z"}', 'cancelled', 'q-cancelled', NULL, NULL, NULL, NULL, NULL, false, 4),
	('01a1ec33-46bc-73eb-92c0-97ac80f7a5e4', '2026-11-18 01:09:05.852+00', '2026-11-18 01:09:05.854+00', 2, NULL, 9, 0, 6, 0, false, '\x602474a104e17458b2e61c5b47fdc9ce42954d861b1ecf12d7a9e2bde8eb0eda', '\x2f22c4f9e468ad5f392653bd2ac0ee8f', NULL, '{"epoch":1,"run_at":"2026-11-18T01:09:05.852Z","dead_letter":{"reason_code":"policy_violation","last_error":{"class":"permanent","message":"by hand"},"at":"2026-11-18T01:09:05.854Z"},"error":{"class":"permanent","message":"by hand"}}', 'dead', 'q-dead', NULL, NULL, NULL, NULL, NULL, false, 9),
	('01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', '2026-11-18 01:09:05.889+00', '2026-11-18 01:09:05.933+00', 7, NULL, 7, 1, 0, 0, false, '\xc9f7578b251044133ea79423ae6b7c76db536b2d9aa16edf92f80430ffaefc26', '\xcd30fb95cfb3b37edda40e008fc40933', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.934Z","lease":{"ended_by":6,"worker_id":"w1","token_hash":"75d188e65d8d6ab4f6e415d1f4b7b534","lease_ttl_ms":86400000,"heartbeat_ms":43200000,"expires_at":"2026-11-19T01:09:05.899Z","since":"2026-11-18T01:09:05.899Z"},"error":{"class":"transient","message":"lost"},"open_effects":1}', 'effects', 'q-effects', NULL, NULL, NULL, NULL, NULL, false, 7),
	('01a1ec33-4712-76a1-8810-193a07ca31f0', '2026-11-18 01:09:05.953+00', '2026-11-18 01:09:05.964+00', 2, NULL, 0, 0, 0, 0, false, '\xb6b2ccc4c66b4b16fc6b2c6766d97f5ddbe7b6d963c161609a8b66d641547a32', '\x872a3b5127dc4d147d6d317b29eb40e3', NULL, '{"epoch":1,"run_at":"2026-11-18T01:09:05.953Z","stored_signals":1}', 'signalled', 'q-signalled', NULL, NULL, NULL, NULL, NULL, false, 0),
	('01a1ec33-4737-76dd-b0dd-d5ca340d7a09', '2026-11-18 01:09:05.976+00', '2026-11-18 01:09:05.992+00', 4, 2110324145992, 2, 0, 0, 0, true, '\x9dd020919a135a18bdff7b129ad54a0f907d0e50339071d160b0d9941a99c83e', '\x00000000000000000000000000000000', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:05.976Z","lease":{"ended_by":5,"worker_id":"w1","token_hash":"1baa6add29b0983dc3b11964b5e39259","lease_ttl_ms":30000,"heartbeat_ms":15000,"since":"2026-11-18T01:09:05.984Z"}}', 'redacted', 'q-redacted', NULL, NULL, NULL, NULL, NULL, false, 2),
	('01a1ec33-4760-7710-bb78-8b706f89dc48', '2026-11-18 01:09:06.02+00', '2026-11-18 01:09:06.061+00', 7, NULL, 1, 0, 0, 0, false, '\x2629464577514c91fb807304074aaf5ae905648837cfd46ac2e0e4074c507c2d', '\x6eabd734f14491ca6f75d19f44fa7377', NULL, '{"attempt":1,"epoch":1,"run_at":"2026-11-18T01:09:06.020Z","plan_version":1,"steps_ready":2,"steps_succeeded":1,"final_steps":2}', 'planned', 'q-planned', NULL, NULL, NULL, NULL, NULL, false, 1);


--
-- Data for Name: kinds; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.kinds VALUES
	('completed', '{"retention_ms":315360000000}'),
	('cancelled', '{"retention_ms":315360000000}'),
	('redacted', '{"retention_ms":315360000000}'),
	('queued', '{"timeout_ms":60000,"retry":{"max_attempts":7,"strategy":"exponential","initial_ms":500,"factor":2,"max_ms":3600000,"jitter":"equal","on_exhausted":"dead_letter"}}');


--
-- Data for Name: lanes; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.lanes VALUES
	(1, '\x3ff325dd502d57051e6bf20520eb1702232186f31759110fcbeaadd1444c456b', '["job","q-queued","queued"]'),
	(2, '\x83bef9f5e46f3c8c8e1b3ba943ab0d9fca91e8b5f138647dbdfc31a2b8e1bec0', '["job","q-scheduled","scheduled"]'),
	(3, '\x0d585c094efc9cac8f4db4ef448b05f63515a7c1e6934d70cad01d3a6d12bddc', '["job","q-leased","leased"]'),
	(4, '\xa64d0244ff31dc01144406f768ed175d85c275d82ea22511eb0c1b4afae8c23a', '["job","q-running","running"]'),
	(5, '\x29a42885bf6ad04012f2b85d58bd9d47977c58716ab71af4f2950f402de3fe71', '["job","q-waiting","waiting"]'),
	(6, '\x43596b30391cbcdb42442ce81e710e33482b24cd458807ca577a63b5cb1d1b9b', '["job","q-plainly-waiting","plainly-waiting"]'),
	(7, '\x36f975fa8dba911533e75fd06b3c73c21c7b630c0746056b6754d2dd142fda95', '["job","q-parked","parked"]'),
	(8, '\xfbc5fb8a7860586f377a48f7414b0de474fcc3e6945af78bb609de09fa7c5432', '["job","q-retrying","retrying"]'),
	(9, '\xdd8880a65242af8722b3ed3ce9bcf88b1a414e6f34bcecdaece84dd9c952537e', '["job","q-completed","completed"]'),
	(10, '\x53fdad24628dfdcd8ddfce8bc4417d31288fbdf604fef5a388a31ad499796184', '["job","q-failed","failed"]'),
	(11, '\x50155508d1a942c9eca50cf8a69ba551afa75030438c6092cfb40867408335fe', '["job","q-cancelled","cancelled"]'),
	(12, '\x3f95955e5a0192475ffed865d150c3142dc8e4e3fad609cb1907d3e3c3933ff8', '["job","q-dead","dead"]'),
	(13, '\xe912c3f5d8f89cabf0ae468b3a7a81545c8390a8f2eb39244cc81a1f77e06386', '["job","q-exhausted","exhausted"]'),
	(14, '\x33d64cbbb0ce9e3651dc2a39b0e27469579a0f401db774fc710207f6861beee6', '["job","q-effects","effects"]'),
	(15, '\x7aee55ff4c73c645dcbd3726c679c88019370dae7e3db0d80d62eb5a5d830686', '["job","q-signalled","signalled"]'),
	(16, '\x09c2cc2aa516607b2d0f2ed65b1949fbbf98f39be9761f27fb90057ae0a14d8c', '["job","q-redacted","redacted"]'),
	(17, '\x7573e7969b48eaebb59eb176d1f145a59cc1bff817f1524c0422021e585ef8e4', '["step","q-planned","s"]');


--
-- Data for Name: lanes_given_back; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: purged; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: queues; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.queues VALUES
	('q-scheduled', true);


--
-- Data for Name: ready; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.ready VALUES
	(1, 0, 1794964145565, '01a1ec33-459c-718d-8f63-7c8f0762e93b', -1),
	(14, 0, 1794964145934, '01a1ec33-46e0-7a1e-a5a8-c0696da4dac1', -1),
	(15, 0, 1794964145953, '01a1ec33-4712-76a1-8810-193a07ca31f0', -1),
	(17, 0, 1794964146020, '01a1ec33-4760-7710-bb78-8b706f89dc48', 2),
	(17, 0, 1794964146020, '01a1ec33-4760-7710-bb78-8b706f89dc48', 1);


--
-- Data for Name: requests; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: resources; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.resources VALUES
	('desk', '2026-11-19 01:09:06.029+00', '{"id":"desk","slots":2,"expires_at":"2026-11-19T01:09:06.029Z","ttl_ms":86400000,"rest":{"failures":5,"within_ms":60000,"for_ms":30000},"capabilities":["web"],"labels":["room","1"]}');


--
-- Data for Name: schema; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.schema VALUES
	(1, 1, '2026-11-18 01:09:04.638222+00'),
	(2, 2, '2026-11-18 01:09:04.638222+00'),
	(3, 3, '2026-11-18 01:09:04.638222+00'),
	(4, 3, '2026-11-18 01:09:04.638222+00'),
	(5, 5, '2026-11-18 01:09:04.638222+00');


--
-- Data for Name: submissions; Type: TABLE DATA; Schema: pawl; Owner: -
--



--
-- Data for Name: timers; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.timers VALUES
	(0, -1, 2110324145589, '01a1ec33-45b4-73e3-8734-e159676d9099', 2, 0),
	(0, -1, 1795050545773, '01a1ec33-4652-7514-84fe-d7d93679508a', 8, 0);


--
-- Data for Name: tokens; Type: TABLE DATA; Schema: pawl; Owner: -
--

INSERT INTO pawl.tokens VALUES
	('01a1ec33-47af-7d9d-9754-f46f82500a40', '\x82704021aa6a0bd0eaad3d2da610598f46be75fc3ba16a6d0ca5037a4d4250df', 'front', 'submit', '[]', '2026-11-18 01:09:06.095+00', NULL, NULL),
	('01a1ec33-47cb-7c30-ab09-cb89952a603a', '\x20f7f98745a1d41b6fdcc5c5d0786ab5b9bfd2b7ec8442800aefbb4e1fa01723', 'agent', 'work', '["q-queued"]', '2026-11-18 01:09:06.124+00', NULL, NULL);


--
-- Name: job_events_seq_seq; Type: SEQUENCE SET; Schema: pawl; Owner: -
--

SELECT pg_catalog.setval('pawl.job_events_seq_seq', 59, true);


--
-- Name: job_telemetry_n_seq; Type: SEQUENCE SET; Schema: pawl; Owner: -
--

SELECT pg_catalog.setval('pawl.job_telemetry_n_seq', 1, false);


--
-- Name: submissions_seq_seq; Type: SEQUENCE SET; Schema: pawl; Owner: -
--

SELECT pg_catalog.setval('pawl.submissions_seq_seq', 1, false);


--
-- Name: attended attended_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.attended
    ADD CONSTRAINT attended_pkey PRIMARY KEY (one);


--
-- Name: batches batches_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (session, batch);


--
-- Name: job_claims job_claims_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.job_claims
    ADD CONSTRAINT job_claims_pkey PRIMARY KEY (job_id, step);


--
-- Name: job_effects job_effects_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.job_effects
    ADD CONSTRAINT job_effects_pkey PRIMARY KEY (job_id, name);


--
-- Name: job_events job_events_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.job_events
    ADD CONSTRAINT job_events_pkey PRIMARY KEY (job_id, version);


--
-- Name: job_signals job_signals_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.job_signals
    ADD CONSTRAINT job_signals_pkey PRIMARY KEY (job_id, version);


--
-- Name: job_steps job_steps_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.job_steps
    ADD CONSTRAINT job_steps_pkey PRIMARY KEY (job_id, ordinal);


--
-- Name: jobs jobs_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);


--
-- Name: kinds kinds_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.kinds
    ADD CONSTRAINT kinds_pkey PRIMARY KEY (kind);


--
-- Name: lanes_given_back lanes_given_back_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.lanes_given_back
    ADD CONSTRAINT lanes_given_back_pkey PRIMARY KEY (one);


--
-- Name: lanes lanes_hash; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.lanes
    ADD CONSTRAINT lanes_hash UNIQUE (hash);


--
-- Name: lanes lanes_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (number);


--
-- Name: purged purged_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.purged
    ADD CONSTRAINT purged_pkey PRIMARY KEY (job_id);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue);


--
-- Name: ready ready_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (lane, rank, run_at, job_id, step);


--
-- Name: requests requests_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);


--
-- Name: resources resources_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.resources
    ADD CONSTRAINT resources_pkey PRIMARY KEY (id);


--
-- Name: schema schema_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.schema
    ADD CONSTRAINT schema_pkey PRIMARY KEY (version);


--
-- Name: submissions submissions_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.submissions
    ADD CONSTRAINT submissions_pkey PRIMARY KEY (id);


--
-- Name: timers timers_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (kind, at, job_id, step);


--
-- Name: tokens tokens_hash; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.tokens
    ADD CONSTRAINT tokens_hash UNIQUE (hash);


--
-- Name: tokens tokens_pkey; Type: CONSTRAINT; Schema: pawl; Owner: -
--

ALTER TABLE ONLY pawl.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);


--
-- Name: job_claims_due_at; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_claims_due_at ON pawl.job_claims USING btree (due_at, job_id, step) WHERE (due_at > 0);


--
-- Name: job_claims_resource_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_claims_resource_id ON pawl.job_claims USING btree (resource_id) WHERE (resource_id IS NOT NULL);


--
-- Name: job_effects_open; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_effects_open ON pawl.job_effects USING btree (job_id) WHERE open;


--
-- Name: job_events_correlation_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_events_correlation_id ON pawl.job_events USING btree (correlation_id) WHERE (correlation_id IS NOT NULL);


--
-- Name: job_events_feed; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_events_feed ON pawl.job_events USING btree (xact, seq);


--
-- Name: job_events_type; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_events_type ON pawl.job_events USING btree (type, created_at) WHERE (type <> ALL (ARRAY['job_created'::text, 'job_leased'::text, 'job_running'::text, 'job_completed'::text]));


--
-- Name: job_signals_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_signals_id ON pawl.job_signals USING btree (job_id, signal_id) WHERE (signal_id IS NOT NULL);


--
-- Name: job_signals_key; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_signals_key ON pawl.job_signals USING btree (job_id, correlation_key, version);


--
-- Name: job_signals_stored; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_signals_stored ON pawl.job_signals USING btree (job_id, correlation_key, version) WHERE (NOT delivered);


--
-- Name: job_steps_asking_key; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_steps_asking_key ON pawl.job_steps USING btree (job_id, asking_key) WHERE (asking_key IS NOT NULL);


--
-- Name: job_steps_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_steps_id ON pawl.job_steps USING btree (job_id, id);


--
-- Name: job_telemetry_at; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_telemetry_at ON pawl.job_telemetry USING btree (at);


--
-- Name: job_telemetry_job; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX job_telemetry_job ON pawl.job_telemetry USING btree (job_id, at, n);


--
-- Name: jobs_agent_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX jobs_agent_id ON pawl.jobs USING btree (agent_id, id) WHERE (agent_id IS NOT NULL);


--
-- Name: jobs_asking; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX jobs_asking ON pawl.jobs USING btree (id) WHERE asking;


--
-- Name: jobs_correlation_id; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX jobs_correlation_id ON pawl.jobs USING btree (correlation_id, id) WHERE (correlation_id IS NOT NULL);


--
-- Name: jobs_idempotency_key; Type: INDEX; Schema: pawl; Owner: -
--

CREATE UNIQUE INDEX jobs_idempotency_key ON pawl.jobs USING btree (queue, idempotency_key) WHERE (idempotency_key IS NOT NULL);


--
-- Name: jobs_purge_at; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX jobs_purge_at ON pawl.jobs USING btree (purge_at, id) WHERE (purge_at IS NOT NULL);


--
-- Name: jobs_shelf; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX jobs_shelf ON pawl.jobs USING btree (shelf, id) INCLUDE (queue, created_at);


--
-- Name: requests_at; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX requests_at ON pawl.requests USING btree (at);


--
-- Name: resources_expires_at; Type: INDEX; Schema: pawl; Owner: -
--

CREATE INDEX resources_expires_at ON pawl.resources USING btree (expires_at, id);


--
-- Name: submissions_idempotency_key; Type: INDEX; Schema: pawl; Owner: -
--

CREATE UNIQUE INDEX submissions_idempotency_key ON pawl.submissions USING btree (queue, idempotency_key) WHERE (idempotency_key IS NOT NULL);


--
-- Name: submissions_seq; Type: INDEX; Schema: pawl; Owner: -
--

CREATE UNIQUE INDEX submissions_seq ON pawl.submissions USING btree (seq);


--
-- PostgreSQL database dump complete
--


