-- name: count_pending
-- By export_jobs_oldest and export_jobs_in_backoff, in which every queued job stands once: the limit ends the counting.
SELECT count(*) FROM (
    SELECT 1 FROM export_jobs WHERE in_line = 1
    UNION ALL
    SELECT 1 FROM export_jobs WHERE status = 'queued' AND in_line = 0
    LIMIT :most
);

-- name: oldest_available
-- The first entry of export_jobs_oldest, and of export_jobs_in_backoff where no claim has seen yet that it is over.
SELECT min(available_at) FROM (
    SELECT (SELECT min(available_at) FROM export_jobs WHERE in_line = 1) AS available_at
    UNION ALL
    SELECT (SELECT min(available_at) FROM export_jobs WHERE status = 'queued' AND in_line = 0)
)
WHERE available_at <= :now;

-- name: count_active
-- By export_jobs_active: the limit ends the counting.
SELECT count(*) FROM (
    SELECT 1 FROM export_jobs WHERE owner_user_id = :owner_id AND status IN ('queued', 'running') LIMIT :most
);

-- name: count_ended
-- By export_jobs_finished, backwards from now: the limit ends the reading. What its owner took back tells nothing about
-- workers.
SELECT count(*) FILTER (WHERE status <> 'cancelled'), count(*), min(finished_at)
FROM (
    SELECT finished_at, status FROM export_jobs
    WHERE finished_at IS NOT NULL AND finished_at > :since AND finished_at <= :now
    ORDER BY finished_at DESC LIMIT :most
);

-- name: bytes_in_use
-- Three numbers of the file's header. Pages on the free list are used before the file grows.
SELECT (pages.page_count - free.freelist_count) * size.page_size
FROM pragma_page_count AS pages, pragma_freelist_count AS free, pragma_page_size AS size;
