-- usable_from: 5
-- Lanes in which nothing stands are given back. Whoever has read lanes in another era forgets them;
-- no number is given out twice.
CREATE TABLE pawl.lanes_given_back (
    one boolean PRIMARY KEY CHECK (one),
    era int8 NOT NULL,
    highest int4 NOT NULL
);
