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
