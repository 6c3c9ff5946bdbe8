-- usable_from: 3
-- Answers are kept for a day and hardly ever read: packing them takes longer than writing them out.
ALTER TABLE pawl.requests ALTER COLUMN answer SET STORAGE EXTERNAL;
