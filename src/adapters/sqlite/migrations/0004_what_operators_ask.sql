-- What operators look for among all that has ended: by status, of all owners and of one, newest first. All that they
-- choose by stands in the indexes, so that a job which is not chosen costs one entry and no row. What has not ended is
-- left out: those few have an index already, and no claim is to be planned by another one.
CREATE INDEX export_jobs_ended ON export_jobs (status, created_at, id, last_error_code, finished_at)
WHERE finished_at IS NOT NULL;
CREATE INDEX export_jobs_ended_of_owner ON export_jobs (
    owner_user_id, status, created_at, id, last_error_code, finished_at
) WHERE finished_at IS NOT NULL;

-- What happened of late, and which workers did it.
CREATE INDEX export_events_by_time ON export_events (at, event, status, worker_id);
