-- usable_from: 3
-- How far the tables have come: the number of the last batch that is in them. Those behind it are in
-- the log beside the database (PATH-ahead0 and PATH-ahead1), which a binary that does not know it
-- would not read.
-- `id` is in every record: a log with another one belongs to another database.
CREATE TABLE ahead (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL,
    id BLOB NOT NULL
);
INSERT INTO ahead VALUES (1, 0, randomblob(16));
