-- usable_from: 6
-- What is left of a deleted job goes too, some time after the job. Rows that are there already count
-- from now on.
ALTER TABLE pawl.purged ADD COLUMN at int8 NOT NULL
    DEFAULT floor(extract(epoch FROM now()) * 1000)::int8;
CREATE INDEX purged_at ON pawl.purged (at);
