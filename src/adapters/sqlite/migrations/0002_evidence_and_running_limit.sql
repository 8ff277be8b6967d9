-- What is kept of an exception for operators, beside the code that the owner sees.
ALTER TABLE export_events ADD COLUMN error_class TEXT;
ALTER TABLE export_events ADD COLUMN fingerprint TEXT;

-- How many jobs of an owner are under lease, so that a claim can pass over an owner who has enough of them.
ALTER TABLE owner_lines ADD COLUMN running_count INTEGER NOT NULL DEFAULT 0
    CONSTRAINT running_is_counted CHECK (running_count >= 0);

-- The count stands in the index: whoever is passed over costs one entry of it and nothing else.
DROP INDEX owner_lines_waiting;
CREATE INDEX owner_lines_waiting ON owner_lines (turn, owner_user_id, running_count) WHERE waiting_count > 0;

INSERT INTO owner_lines (owner_user_id, turn, waiting_count, running_count)
SELECT owner_user_id, 0, 0, count(*) FROM export_jobs WHERE status = 'running' GROUP BY owner_user_id
ON CONFLICT (owner_user_id) DO UPDATE SET running_count = excluded.running_count;
