-- application_id = 1181052515
-- auto_vacuum = 2
-- journal_mode = wal
-- user_version = 5

CREATE TABLE api_tokens (
    id         TEXT PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    token_hash TEXT NOT NULL UNIQUE,
    scopes     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    CONSTRAINT token_hash_is_sha256 CHECK (length(token_hash) = 64)
) STRICT, WITHOUT ROWID;

CREATE TABLE export_events (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id    TEXT NOT NULL REFERENCES export_jobs (id),
    version   INTEGER NOT NULL,
    event     TEXT NOT NULL,
    status    TEXT NOT NULL,
    attempt   INTEGER NOT NULL,
    worker_id TEXT,
    code      TEXT,
    detail    TEXT,
    actor     TEXT,
    reason    TEXT,
    at        INTEGER NOT NULL, error_class TEXT, fingerprint TEXT,
    CONSTRAINT one_line_per_version UNIQUE (job_id, version)
) STRICT;

CREATE TABLE export_jobs (
    id                TEXT NOT NULL UNIQUE,
    owner_user_id     INTEGER NOT NULL REFERENCES users (id),
    request_key       TEXT NOT NULL,
    parameters_json   TEXT NOT NULL,
    parameters_digest TEXT NOT NULL,
    status            TEXT NOT NULL,
    version           INTEGER NOT NULL,
    in_line           INTEGER NOT NULL,  -- 1 while queued with its backoff over: what `owner_lines` counts
    created_at        INTEGER NOT NULL,
    available_at      INTEGER NOT NULL,
    deadline_at       INTEGER NOT NULL,
    attempt_count     INTEGER NOT NULL,
    excused_count     INTEGER NOT NULL,
    max_attempts      INTEGER NOT NULL,
    lease_token       TEXT,
    lease_until       INTEGER,
    worker_id         TEXT,
    started_at        INTEGER,
    finished_at       INTEGER,
    last_error_code   TEXT,
    request_id        TEXT,
    traceparent       TEXT,
    CONSTRAINT one_job_per_key UNIQUE (owner_user_id, request_key),
    CONSTRAINT id_is_uuid CHECK (length(id) = 36),
    CONSTRAINT status_is_known CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT version_is_positive CHECK (version >= 1),
    CONSTRAINT attempts_are_counted CHECK (attempt_count >= 0 AND excused_count BETWEEN 0 AND attempt_count),
    CONSTRAINT budget_is_kept CHECK (attempt_count - excused_count <= max_attempts),
    CONSTRAINT leased_exactly_while_running CHECK (
        (status = 'running') = (lease_token IS NOT NULL)
        AND (status = 'running') = (lease_until IS NOT NULL)
        AND (status = 'running') = (worker_id IS NOT NULL)
    ),
    CONSTRAINT finished_exactly_when_terminal CHECK (
        (status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT failures_have_a_code CHECK ((status IN ('failed', 'cancelled')) = (last_error_code IS NOT NULL)),
    CONSTRAINT only_queued_jobs_wait CHECK (in_line IN (0, 1) AND (in_line = 0 OR status = 'queued'))
) STRICT;

CREATE TABLE export_result_chunks (
    job_id      TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    byte_offset INTEGER NOT NULL,
    byte_count  INTEGER NOT NULL,
    row_count   INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    payload     BLOB NOT NULL,
    CONSTRAINT one_chunk_per_number UNIQUE (job_id, attempt, seq),
    CONSTRAINT chunk_is_counted CHECK (seq >= 0 AND byte_offset >= 0 AND byte_count > 0 AND row_count >= 0)
) STRICT;

CREATE TABLE export_results (
    job_id                TEXT PRIMARY KEY REFERENCES export_jobs (id),
    attempt               INTEGER NOT NULL,
    content_type          TEXT NOT NULL,
    chunk_count           INTEGER NOT NULL,
    byte_count            INTEGER NOT NULL,
    sha256                TEXT NOT NULL,
    gzip_byte_count       INTEGER NOT NULL,
    gzip_sha256           TEXT NOT NULL,
    crc32                 INTEGER NOT NULL,
    row_count             INTEGER NOT NULL,
    formula_escaped_count INTEGER NOT NULL,
    snapshot_at           INTEGER NOT NULL,
    created_at            INTEGER NOT NULL,
    expires_at            INTEGER NOT NULL,
    gone_at               INTEGER,
    gone_reason           TEXT,
    CONSTRAINT digests_are_sha256 CHECK (length(sha256) = 64 AND length(gzip_sha256) = 64),
    CONSTRAINT gone_with_a_reason CHECK ((gone_at IS NULL) = (gone_reason IS NULL)),
    CONSTRAINT gone_reason_is_known CHECK (gone_reason IN ('expired', 'deleted'))
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    owner_user_id     INTEGER NOT NULL REFERENCES users (id),
    route             TEXT NOT NULL,
    request_key       TEXT NOT NULL,
    parameters_digest TEXT NOT NULL,
    resource_id       TEXT NOT NULL,
    outcome_json      TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (owner_user_id, route, request_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE maintenance (
    id          INTEGER PRIMARY KEY,
    number      INTEGER NOT NULL,
    worker_id   TEXT NOT NULL,
    lease_token TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    CONSTRAINT one_holder_at_a_time CHECK (id = 1),
    CONSTRAINT number_is_positive CHECK (number >= 1)
) STRICT;

CREATE TABLE open_imports (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    owner_user_id INTEGER NOT NULL REFERENCES users (id),
    opened_at     INTEGER NOT NULL,
    discarded_at  INTEGER
) STRICT;

CREATE TABLE owner_lines (
    owner_user_id INTEGER PRIMARY KEY REFERENCES users (id),
    turn          INTEGER NOT NULL,
    waiting_count INTEGER NOT NULL, running_count INTEGER NOT NULL DEFAULT 0
    CONSTRAINT running_is_counted CHECK (running_count >= 0),
    CONSTRAINT waiting_is_counted CHECK (waiting_count >= 0)
) STRICT;

CREATE TABLE tasks (
    id            TEXT NOT NULL UNIQUE,
    owner_user_id INTEGER NOT NULL REFERENCES users (id),
    status        TEXT NOT NULL,
    priority      INTEGER NOT NULL,
    due_at        INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    import_id     INTEGER,
    title         TEXT NOT NULL,
    description   TEXT NOT NULL,
    CONSTRAINT id_is_uuid CHECK (length(id) = 36),
    CONSTRAINT status_is_known CHECK (status IN ('open', 'in_progress', 'done')),
    CONSTRAINT priority_is_known CHECK (priority BETWEEN 1 AND 4),
    CONSTRAINT title_is_bounded CHECK (length(title) BETWEEN 1 AND 500),
    CONSTRAINT description_is_bounded CHECK (length(description) <= 100000),
    CONSTRAINT version_is_positive CHECK (version >= 1)
) STRICT;

CREATE TABLE unpublished_attempts (
    job_id       TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    rows_written INTEGER NOT NULL,
    rows_total   INTEGER NOT NULL, needed_until INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    created_at  INTEGER NOT NULL,
    disabled_at INTEGER
) STRICT;

CREATE INDEX api_tokens_by_user ON api_tokens (user_id, created_at);

CREATE INDEX export_events_by_time ON export_events (at, event, status, worker_id);

CREATE INDEX export_jobs_active ON export_jobs (owner_user_id, status) WHERE status IN ('queued', 'running');

CREATE INDEX export_jobs_by_deadline ON export_jobs (deadline_at) WHERE finished_at IS NULL;

CREATE INDEX export_jobs_ended ON export_jobs (status, created_at, id, last_error_code, finished_at)
WHERE finished_at IS NOT NULL;

CREATE INDEX export_jobs_ended_of_owner ON export_jobs (
    owner_user_id, status, created_at, id, last_error_code, finished_at
) WHERE finished_at IS NOT NULL;

CREATE INDEX export_jobs_finished ON export_jobs (finished_at, status) WHERE finished_at IS NOT NULL;

CREATE INDEX export_jobs_in_backoff ON export_jobs (available_at) WHERE status = 'queued' AND in_line = 0;

CREATE INDEX export_jobs_in_line ON export_jobs (owner_user_id, created_at, id, available_at) WHERE in_line = 1;

CREATE INDEX export_jobs_leased ON export_jobs (lease_until) WHERE status = 'running';

CREATE INDEX export_jobs_of_owner ON export_jobs (owner_user_id, created_at, id);

CREATE INDEX export_jobs_oldest ON export_jobs (available_at) WHERE in_line = 1;

CREATE INDEX export_jobs_on_last_attempt ON export_jobs (lease_until)
WHERE finished_at IS NULL AND max_attempts <= attempt_count - excused_count;

CREATE INDEX export_results_by_expiry ON export_results (expires_at) WHERE gone_at IS NULL;

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

CREATE INDEX open_imports_by_age ON open_imports (opened_at);

CREATE INDEX owner_lines_by_turn ON owner_lines (turn);

CREATE INDEX owner_lines_waiting ON owner_lines (turn, owner_user_id, running_count) WHERE waiting_count > 0;

CREATE INDEX tasks_by_import ON tasks (import_id) WHERE import_id IS NOT NULL;

CREATE INDEX tasks_in_order ON tasks (owner_user_id, created_at, id);

CREATE INDEX unpublished_attempts_by_need ON unpublished_attempts (needed_until);
