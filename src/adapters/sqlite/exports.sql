-- part: job
-- A whole job, in the order of the members of `ExportJob`.
id, owner_user_id, request_key, parameters_json, parameters_digest, status, version, created_at, available_at,
    deadline_at, attempt_count, excused_count, max_attempts, lease_token, lease_until, worker_id, started_at,
    finished_at, last_error_code, request_id, traceparent

-- name: add_job
-- One row; (owner, key) makes a second one impossible.
INSERT INTO export_jobs (
    id, owner_user_id, request_key, parameters_json, parameters_digest, status, version, in_line, created_at,
    available_at, deadline_at, attempt_count, excused_count, max_attempts, lease_token, lease_until, worker_id,
    started_at, finished_at, last_error_code, request_id, traceparent
)
VALUES (
    :id, :owner_id, :request_key, :parameters_json, :parameters_digest, :status, :version, :in_line, :created_at,
    :available_at, :deadline_at, :attempt_count, :excused_count, :max_attempts, :lease_token, :lease_until, :worker_id,
    :started_at, :finished_at, :last_error_code, :request_id, :traceparent
);

-- name: save_job
-- Compare-and-set on version: one row, by the unique index on id. What never changes is not set.
UPDATE export_jobs
SET status = :status, version = :version, in_line = :in_line, available_at = :available_at, deadline_at = :deadline_at,
    attempt_count = :attempt_count, excused_count = :excused_count, max_attempts = :max_attempts,
    lease_token = :lease_token, lease_until = :lease_until, worker_id = :worker_id, started_at = :started_at,
    finished_at = :finished_at, last_error_code = :last_error_code
WHERE id = :id AND version = :expected_version;

-- name: is_in_line
-- One row, by the unique index on id.
SELECT in_line FROM export_jobs WHERE id = :id;

-- name: get_job
-- One row, by the unique index on id.
SELECT {job} FROM export_jobs WHERE id = :id;

-- name: find_job
-- One row, by the unique index on id; another owner's row does not match.
SELECT {job} FROM export_jobs WHERE id = :id AND owner_user_id = :owner_id;

-- name: find_job_by_key
-- One row, by one_job_per_key.
SELECT {job} FROM export_jobs WHERE owner_user_id = :owner_id AND request_key = :request_key;

-- name: page_jobs
-- By export_jobs_of_owner, backwards from the position: the limit ends the reading.
SELECT {job} FROM export_jobs
WHERE owner_user_id = :owner_id
    AND (created_at, id) < (:before_created_at, :before_id)
    AND (:status IS NULL OR status IN (SELECT value FROM json_each(:status)))
ORDER BY created_at DESC, id DESC
LIMIT :limit;

-- name: append_event
-- One row; one_line_per_version makes a second line of the same version impossible.
INSERT INTO export_events (
    job_id, version, event, status, attempt, worker_id, code, detail, actor, reason, error_class, fingerprint, at
)
VALUES (
    :job_id, :version, :event, :status, :attempt, :worker_id, :code, :detail, :actor, :reason, :error_class,
    :fingerprint, :at
);

-- name: history
-- By one_line_per_version: the lines of one job.
SELECT job_id, version, event, status, attempt, at, worker_id, code, detail, actor, reason, error_class, fingerprint
FROM export_events WHERE job_id = :job_id ORDER BY version;

-- name: has_candidates
-- Four looks, each at the first entry of a partial index: what an idle worker asks, without any lock.
SELECT
    EXISTS (SELECT 1 FROM export_jobs WHERE status = 'running' AND lease_until <= :now)
    OR EXISTS (SELECT 1 FROM export_jobs WHERE status = 'running' AND lease_until > :longest_lease_until)
    OR EXISTS (
        SELECT 1 FROM owner_lines AS waiting
        WHERE waiting_count > 0 AND running_count < :running_limit AND EXISTS (
            SELECT 1 FROM export_jobs
            WHERE in_line = 1 AND owner_user_id = waiting.owner_user_id AND available_at <= :now
        )
    )
    OR EXISTS (SELECT 1 FROM export_jobs WHERE status = 'queued' AND in_line = 0 AND available_at <= :now);

-- name: dead_leases
-- By export_jobs_leased, from its start: leases that are over, longest over first.
SELECT {job} FROM export_jobs WHERE status = 'running' AND lease_until <= :now ORDER BY lease_until LIMIT :limit;

-- name: frozen_leases
-- By export_jobs_leased, from its end: leases that no clock but one that jumped back can have granted.
SELECT {job} FROM export_jobs
WHERE status = 'running' AND lease_until > :longest_lease_until ORDER BY lease_until DESC LIMIT :limit;

-- name: next_in_line
-- By owner_lines_waiting, then by export_jobs_in_line one entry an owner: as many rows as the limit, whatever is queued.
-- Entries are passed over only of owners at their running limit, fewer than there are leases, and after the clock was
-- set back, when there is more in line than is available.
SELECT {job} FROM export_jobs
WHERE id IN (
    SELECT (
        SELECT id FROM export_jobs
        WHERE in_line = 1 AND owner_user_id = waiting.owner_user_id AND available_at <= :now
        ORDER BY created_at, id LIMIT 1
    )
    FROM (
        SELECT owner_user_id FROM owner_lines
        WHERE waiting_count > 0 AND running_count < :running_limit AND EXISTS (
            SELECT 1 FROM export_jobs
            WHERE in_line = 1 AND owner_user_id = owner_lines.owner_user_id AND available_at <= :now
        )
        ORDER BY turn, owner_user_id LIMIT :limit
    ) AS waiting
)
ORDER BY (SELECT turn FROM owner_lines WHERE owner_lines.owner_user_id = export_jobs.owner_user_id), owner_user_id;

-- name: due_from_backoff
-- By export_jobs_in_backoff: a few whose backoff is over.
SELECT id, owner_user_id FROM export_jobs
WHERE status = 'queued' AND in_line = 0 AND available_at <= :now ORDER BY available_at LIMIT :limit;

-- name: put_in_line
-- One row, by the unique index on id.
UPDATE export_jobs SET in_line = 1 WHERE id = :id;

-- name: join_line
-- One row. Whoever comes back after a pause starts at the turn that is being served, so that a pause earns nothing.
INSERT INTO owner_lines (owner_user_id, turn, waiting_count)
VALUES (:owner_id, :turn_now, 1)
ON CONFLICT (owner_user_id) DO UPDATE SET
    turn = iif(waiting_count = 0, max(turn, excluded.turn), turn),
    waiting_count = waiting_count + 1;

-- name: leave_line
-- One row, by key.
UPDATE owner_lines SET waiting_count = waiting_count - 1 WHERE owner_user_id = :owner_id;

-- name: take_turn
-- One row, by key: served now, so behind every owner that waits at this turn. Whoever was passed over gained nothing.
UPDATE owner_lines SET turn = max(turn, :turn_now) + 1 WHERE owner_user_id = :owner_id;

-- name: begin_running
-- One row. Who has none yet waits for nothing, and gets a turn when joining the line.
INSERT INTO owner_lines (owner_user_id, turn, waiting_count, running_count)
VALUES (:owner_id, 0, 0, 1)
ON CONFLICT (owner_user_id) DO UPDATE SET running_count = running_count + 1;

-- name: end_running
-- One row, by key.
UPDATE owner_lines SET running_count = running_count - 1 WHERE owner_user_id = :owner_id;

-- name: turn_now
-- One before the last entry of owner_lines_by_turn: the turn that is being served, since whoever was served last stands
-- one behind it and nobody stands further back. Not the first that waits: that can be an owner who was passed over, and
-- so old a turn would be served before all others, or one who was just served, and so late a turn after them once more.
SELECT max(coalesce((SELECT turn FROM owner_lines ORDER BY turn DESC LIMIT 1), 0) - 1, 0);

-- name: late_jobs
-- By export_jobs_by_deadline, from its start. A lease ends with the deadline at the latest, so none of them is live.
SELECT {job} FROM export_jobs
WHERE finished_at IS NULL AND deadline_at <= :as_of
    AND (lease_until IS NULL OR lease_until <= :as_of OR lease_until > :longest_lease_until)
ORDER BY deadline_at LIMIT :limit;

-- name: spent_jobs
-- By export_jobs_on_last_attempt, which holds the last attempts only: one for each worker that is at one, and those
-- that were lost.
SELECT {job} FROM export_jobs
WHERE finished_at IS NULL AND max_attempts <= attempt_count - excused_count
    AND (lease_until IS NULL OR lease_until <= :as_of OR lease_until > :longest_lease_until)
ORDER BY lease_until LIMIT :limit;
