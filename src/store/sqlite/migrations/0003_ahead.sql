-- usable_from: 3
-- How far the tables have come: the number of the last batch that is in them. Those behind it are in
-- the log beside the database (PATH-ahead0 and PATH-ahead1), which a binary that does not know it
-- would not read.
CREATE TABLE ahead (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL
);
INSERT INTO ahead VALUES (1, 0);
