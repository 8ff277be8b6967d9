-- part: result
-- A whole result, in the order of the members of `ExportResult`.
job_id, attempt, content_type, chunk_count, byte_count, sha256, gzip_byte_count, gzip_sha256, crc32, row_count,
    formula_escaped_count, snapshot_at, created_at, expires_at, gone_at, gone_reason

-- name: publish_result
-- One row; the key makes a second result of a job impossible.
INSERT INTO export_results (
    job_id, attempt, content_type, chunk_count, byte_count, sha256, gzip_byte_count, gzip_sha256, crc32, row_count,
    formula_escaped_count, snapshot_at, created_at, expires_at, gone_at, gone_reason
)
VALUES (
    :job_id, :attempt, :content_type, :chunk_count, :byte_count, :sha256, :gzip_byte_count, :gzip_sha256, :crc32,
    :row_count, :formula_escaped_count, :snapshot_at, :created_at, :expires_at, :gone_at, :gone_reason
);

-- name: find_result
-- One row, by key.
SELECT {result} FROM export_results WHERE job_id = :job_id;

-- name: expired_results
-- By export_results_by_expiry, from its start.
SELECT {result} FROM export_results
WHERE gone_at IS NULL AND expires_at <= :as_of ORDER BY expires_at LIMIT :limit;

-- name: mark_result_expired
-- One row, by key; a second time, or after it was deleted, changes nothing.
UPDATE export_results SET gone_at = expires_at, gone_reason = 'expired' WHERE job_id = :job_id AND gone_at IS NULL;

-- name: mark_result_gone
-- One row, by key. What was deleted stays so; what had expired can still be deleted.
UPDATE export_results SET gone_at = :now, gone_reason = :reason
WHERE job_id = :job_id AND (gone_at IS NULL OR (gone_reason = 'expired' AND :reason = 'deleted'));

-- name: hand_to_sweep
-- One row, by key: the result's chunks are no longer published. Whoever needs them no longer at an earlier instant wins.
INSERT INTO unpublished_attempts (job_id, attempt, rows_written, rows_total, needed_until)
SELECT job_id, attempt, row_count, row_count, :needed_until FROM export_results WHERE job_id = :job_id
ON CONFLICT (job_id, attempt) DO UPDATE SET needed_until = min(needed_until, excluded.needed_until);

-- name: stage_chunk
-- One row of about a megabyte before compression: the lock is held for one short write.
INSERT INTO export_result_chunks (job_id, attempt, seq, byte_offset, byte_count, row_count, sha256, payload)
VALUES (:job_id, :attempt, :seq, :byte_offset, :byte_count, :row_count, :sha256, :payload);

-- name: note_progress
-- One row, by key.
INSERT INTO unpublished_attempts (job_id, attempt, rows_written, rows_total)
VALUES (:job_id, :attempt, :row_count, :rows_total)
ON CONFLICT (job_id, attempt) DO UPDATE SET rows_written = rows_written + excluded.rows_written;

-- name: staged
-- By one_chunk_per_number: the chunks of one attempt. The payload stands last in its row and is not read: its length
-- stands in the row's header.
SELECT count(*), sum(byte_count), sum(row_count), sum(length(payload)), min(seq), max(seq),
    max(byte_offset + byte_count)
FROM export_result_chunks WHERE job_id = :job_id AND attempt = :attempt;

-- name: first_gap
-- By one_chunk_per_number, twice: the chunks of one attempt, each beside the one before it.
SELECT 1
FROM export_result_chunks AS chunk
WHERE chunk.job_id = :job_id AND chunk.attempt = :attempt AND chunk.byte_offset != coalesce((
    SELECT before.byte_offset + before.byte_count FROM export_result_chunks AS before
    WHERE before.job_id = chunk.job_id AND before.attempt = chunk.attempt AND before.seq = chunk.seq - 1
), 0)
LIMIT 1;

-- name: progress
-- One row, by key.
SELECT rows_written, rows_total FROM unpublished_attempts WHERE job_id = :job_id AND attempt = :attempt;

-- name: read_chunk
-- One row, by one_chunk_per_number.
SELECT seq, byte_offset, byte_count, row_count, sha256, payload
FROM export_result_chunks WHERE job_id = :job_id AND attempt = :attempt AND seq = :seq;

-- name: publish_attempt
-- One row, by key: its chunks belong to a result from here on, and the sweep does not look at them.
DELETE FROM unpublished_attempts WHERE job_id = :job_id AND attempt = :attempt;

-- name: lost_attempts
-- By unpublished_attempts_by_need, from its start: what is being staged and what was lost, a handful of rows, and then
-- what is needed no more. A row is spared while it is the current attempt of a running job.
SELECT unpublished.job_id, unpublished.attempt
FROM unpublished_attempts AS unpublished
WHERE unpublished.needed_until <= :as_of AND NOT EXISTS (
    SELECT 1 FROM export_jobs
    WHERE export_jobs.id = unpublished.job_id AND status = 'running' AND attempt_count = unpublished.attempt
)
LIMIT :limit;

-- name: delete_chunks
-- By one_chunk_per_number, a bounded number, and never those of a result that can be read.
DELETE FROM export_result_chunks WHERE rowid IN (
    SELECT rowid FROM export_result_chunks
    WHERE job_id = :job_id AND attempt = :attempt
        AND EXISTS (SELECT 1 FROM unpublished_attempts WHERE job_id = :job_id AND attempt = :attempt)
    ORDER BY seq LIMIT :limit
);

-- name: forget_attempt
-- One row, by key, once it has no chunk left.
DELETE FROM unpublished_attempts
WHERE job_id = :job_id AND attempt = :attempt
    AND NOT EXISTS (SELECT 1 FROM export_result_chunks WHERE job_id = :job_id AND attempt = :attempt);

-- name: has_chunks
-- By one_chunk_per_number: the first entry of one attempt.
SELECT 1 FROM export_result_chunks WHERE job_id = :job_id AND attempt = :attempt LIMIT 1;
