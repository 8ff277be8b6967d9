-- part: chosen
-- What the key of the index does not hold, tested on its entries: no row is read for a job that is not chosen.
(created_at, id) < (:before_created_at, :before_id) AND created_at > :created_after
    AND (:code IS NULL OR last_error_code = :code)
    AND (:finished_before IS NULL OR finished_at < :finished_before)
    AND (:finished_after IS NULL OR finished_at > :finished_after)
ORDER BY created_at DESC, id DESC
LIMIT :limit

-- name: ended_jobs
-- By export_jobs_ended alone, backwards from the position: the limit ends the reading. Passed over are jobs of that
-- status with another code, or that ended at another time.
SELECT created_at, id FROM export_jobs WHERE finished_at IS NOT NULL AND status = :status AND {chosen};

-- name: ended_jobs_of_owner
-- As above, by export_jobs_ended_of_owner.
SELECT created_at, id FROM export_jobs
WHERE finished_at IS NOT NULL AND owner_user_id = :owner_id AND status = :status AND {chosen};

-- name: active_jobs
-- Every entry of export_jobs_active, sorted: as many as admission lets wait, and what is running.
SELECT created_at, id FROM export_jobs
WHERE status IN ('queued', 'running') AND status = :status AND (:owner_id IS NULL OR owner_user_id = :owner_id)
    AND {chosen};

-- name: number_ended
-- By export_jobs_ended: the limit ends the counting.
SELECT count(*) FROM (SELECT 1 FROM export_jobs WHERE finished_at IS NOT NULL AND status = :status LIMIT :most);

-- name: number_active
-- By export_jobs_active: as many as admission lets wait.
SELECT count(*) FROM (
    SELECT 1 FROM export_jobs WHERE status IN ('queued', 'running') AND status = :status LIMIT :most
);

-- name: running_jobs
-- By export_jobs_leased, and the lines of each job: as many jobs as workers hold.
SELECT id, worker_id, (
    SELECT max(at) FROM export_events WHERE job_id = export_jobs.id AND event = 'claim'
)
FROM export_jobs WHERE status = 'running' ORDER BY lease_until LIMIT :limit;

-- name: happened
-- By export_events_by_time alone: the lines of the window.
SELECT
    count(*) FILTER (WHERE event = 'enqueue'),
    count(*) FILTER (WHERE event = 'requeue'),
    count(*) FILTER (WHERE event = 'complete'),
    count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'cancelled')
FROM export_events WHERE at > :since AND at <= :now;

-- name: workers_seen
-- By export_events_by_time alone: the lines of the window.
SELECT worker_id, max(at) FROM export_events
WHERE at > :since AND at <= :now AND worker_id IS NOT NULL GROUP BY worker_id;
