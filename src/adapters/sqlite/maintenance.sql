-- name: last_grant
-- One row, by key.
SELECT number, worker_id, lease_token, lease_until FROM maintenance WHERE id = 1;

-- name: grant_maintenance
-- One row, by key; a number that is not higher than the last one's changes nothing.
INSERT INTO maintenance (id, number, worker_id, lease_token, lease_until)
VALUES (1, :number, :worker_id, :lease_token, :lease_until)
ON CONFLICT (id) DO UPDATE SET
    number = excluded.number, worker_id = excluded.worker_id, lease_token = excluded.lease_token,
    lease_until = excluded.lease_until
WHERE excluded.number > number;

-- name: forgettable_jobs
-- By export_jobs_finished, from its start: the limit ends the reading. Jobs are passed over only while their result is
-- kept longer than their row, which the settings refuse, or while their last bytes wait for the sweep.
SELECT id FROM export_jobs
WHERE finished_at IS NOT NULL AND finished_at <= :before
    AND NOT EXISTS (SELECT 1 FROM export_results WHERE job_id = export_jobs.id AND gone_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM unpublished_attempts WHERE job_id = export_jobs.id)
ORDER BY finished_at LIMIT :limit;

-- name: forget_events
-- By one_line_per_version: the lines of one job, a few for each attempt that it was granted.
DELETE FROM export_events WHERE job_id = :job_id;

-- name: forget_result
-- One row, by key.
DELETE FROM export_results WHERE job_id = :job_id;

-- name: forget_job
-- One row, by the unique index on id; what refers to it has gone before it.
DELETE FROM export_jobs WHERE id = :job_id;
