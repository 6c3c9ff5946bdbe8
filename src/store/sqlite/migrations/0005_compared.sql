-- usable_from: 4
-- The same events as before, told by comparisons: for a list of four SQLite makes a table, for each
-- event that is written, of which it then looks up one row.
DROP INDEX job_events_by_type;
CREATE INDEX job_events_by_type ON event_rows (type, created_at)
    WHERE type <> 'job_created' AND type <> 'job_leased' AND type <> 'job_running'
        AND type <> 'job_completed';
