-- usable_from: 4
-- Nothing looks for events by type: every event was written to this index for nobody.
DROP INDEX job_events_by_type;

-- Records of the log have another sum from here on: a binary that does not know it would take them
-- for the end of the log.
