-- Admission asks in every transaction that accepts an export, so each of its questions has an index that ends the look.

-- Since when the oldest job in line could have been taken. Those in backoff have theirs, and so each waiting job stands in
-- one of the two: an index of all would be taken for theirs.
CREATE INDEX export_jobs_oldest ON export_jobs (available_at) WHERE in_line = 1;

-- How many exports of one owner have not ended.
CREATE INDEX export_jobs_active ON export_jobs (owner_user_id, status) WHERE status IN ('queued', 'running');

-- How fast exports ended of late.
CREATE INDEX export_jobs_finished ON export_jobs (finished_at, status) WHERE finished_at IS NOT NULL;
