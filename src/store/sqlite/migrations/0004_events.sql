-- usable_from: 3
-- Nothing looks for events by type: every event was written to this index for nobody.
DROP INDEX job_events_by_type;
