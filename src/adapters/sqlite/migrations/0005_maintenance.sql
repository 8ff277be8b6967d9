-- Maintenance: one holder at a time, and indexes by which it finds what is over without looking at what is not.

-- One row at most: the last lease of maintenance that was granted. `number` orders the grants, and only grows.
CREATE TABLE maintenance (
    id          INTEGER PRIMARY KEY,
    number      INTEGER NOT NULL,
    worker_id   TEXT NOT NULL,
    lease_token TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    CONSTRAINT one_holder_at_a_time CHECK (id = 1),
    CONSTRAINT number_is_positive CHECK (number >= 1)
) STRICT;

-- From this instant on no one can need the bytes: at once for attempts that were lost and results that were deleted;
-- for results that expired, once the downloads that began in time have had theirs.
ALTER TABLE unpublished_attempts ADD COLUMN needed_until INTEGER NOT NULL DEFAULT 0;

CREATE INDEX unpublished_attempts_by_need ON unpublished_attempts (needed_until);
CREATE INDEX export_results_by_expiry ON export_results (expires_at) WHERE gone_at IS NULL;
CREATE INDEX export_jobs_by_deadline ON export_jobs (deadline_at) WHERE finished_at IS NULL;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Jobs whose budget is spent: the last attempts under way, and those of them that were lost. The column stands on the
-- left: SQLite turns a comparison round that has it on the right, and then does not see that the index fits.
CREATE INDEX export_jobs_on_last_attempt ON export_jobs (lease_until)
WHERE finished_at IS NULL AND max_attempts <= attempt_count - excused_count;
