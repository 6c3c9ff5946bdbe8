-- usable_from: 4
-- Events that every job has are found by their time or their job as well as by their type, and were
-- written to this index for nobody.
DROP INDEX job_events_by_type;
CREATE INDEX job_events_by_type ON event_rows (type, created_at)
    WHERE type NOT IN ('job_created', 'job_leased', 'job_running', 'job_completed');

-- Records of the log have another sum from here on: a binary that does not know it would take them
-- for the end of the log.

-- Answers stand in a table of their own order, and only keys in the index: a search for a key, which
-- every request makes, would else walk over the answers of others, whole.
CREATE TABLE requests_by_key (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    body_hash BLOB NOT NULL,
    answer TEXT,
    UNIQUE (scope, key)
);
INSERT INTO requests_by_key (scope, key, at, body_hash, answer)
    SELECT scope, key, at, body_hash, answer FROM requests ORDER BY at;
DROP TABLE requests;
ALTER TABLE requests_by_key RENAME TO requests;
CREATE INDEX requests_by_age ON requests (at);
