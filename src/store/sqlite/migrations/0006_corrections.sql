-- usable_from: 6
-- What is left of a deleted job goes too, some time after the job. Rows that are there already count
-- from now on.
ALTER TABLE purged ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE purged SET at = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
CREATE INDEX purged_by_age ON purged (at);

-- Telemetry says which version the job had; rows from before do not know.
ALTER TABLE job_telemetry ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
-- Answers to questions of people have a scope of their own, which tokens that could answer keep.
UPDATE tokens SET scopes = scopes || ',answer'
    WHERE ',' || scopes || ',' LIKE '%,submit,%' AND ',' || scopes || ',' NOT LIKE '%,answer,%';
-- Claims read the effects of a job or a step page by page, in the order of their versions.
CREATE INDEX job_effects_by_owner ON job_effects (job, step, version);
-- Workers that have registered, also while they hold no lease.
CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX workers_by_end ON workers (expires_at);
