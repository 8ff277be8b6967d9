-- part: task
-- A whole task, in the order of the members of `Task`.
id, owner_user_id, title, description, status, priority, due_at, created_at, updated_at, version

-- part: visible
-- Tasks of an open import are stored and not visible. `open_imports` holds only imports under way, so the list that is
-- excluded is empty or tiny, and is read once a statement.
(import_id IS NULL OR import_id NOT IN (SELECT id FROM open_imports))

-- part: selected
-- What a `TaskFilter` selects of an owner's tasks: the same in a list, in a file, and in the count of its rows.
owner_user_id = :owner_id
    AND {visible}
    AND (:status IS NULL OR status IN (SELECT value FROM json_each(:status)))
    AND (:priority IS NULL OR priority IN (SELECT value FROM json_each(:priority)))
    AND (:due_before IS NULL OR due_at < :due_before)
    AND (:due_after IS NULL OR due_at > :due_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:created_after IS NULL OR created_at > :created_after)
    AND (:updated_since IS NULL OR updated_at >= :updated_since)

-- name: add_task
-- One row.
INSERT INTO tasks (
    id, owner_user_id, title, description, status, priority, due_at, created_at, updated_at, version, import_id
)
VALUES (
    :id, :owner_id, :title, :description, :status, :priority, :due_at, :created_at, :updated_at, :version, :import_id
);

-- name: find_task
-- One row, by the unique index on id; another owner's row does not match.
SELECT {task} FROM tasks
WHERE id = :id AND owner_user_id = :owner_id AND {visible};

-- name: page_tasks
-- By tasks_in_order, from the position on: the order is the index's, so the limit ends the reading.
SELECT {task} FROM tasks
WHERE {selected}
    AND (created_at, id) > (:after_created_at, :after_id)
ORDER BY created_at, id
LIMIT :limit;

-- name: snapshot_tasks
-- The whole of an owner's selection in the order of tasks_in_order, streamed: columns in the order of `Column`, the
-- owner last, to be checked.
SELECT id, title, description, status, priority, due_at, created_at, updated_at, version, owner_user_id
FROM tasks
WHERE {selected}
ORDER BY created_at, id;

-- name: count_snapshot_tasks
-- How many rows `snapshot_tasks` will give, in the same snapshot.
SELECT count(*)
FROM tasks
WHERE {selected};

-- name: save_task
-- Compare-and-set on version: one row, by the unique index on id; a task of an open import does not match.
UPDATE tasks
SET title = :title, description = :description, status = :status, priority = :priority, due_at = :due_at,
    updated_at = :updated_at, version = :version
WHERE id = :id AND owner_user_id = :owner_id AND version = :expected_version AND {visible};

-- name: remove_task
-- Compare-and-set on version: one row, by the unique index on id; a task of an open import does not match.
DELETE FROM tasks
WHERE id = :id AND owner_user_id = :owner_id AND version = :expected_version AND {visible};

-- name: find_outcome
-- One row, by key.
SELECT owner_user_id, route, request_key, parameters_digest, resource_id, outcome_json
FROM idempotency_keys
WHERE owner_user_id = :owner_id AND route = :route AND request_key = :request_key;

-- name: add_outcome
-- One row; the key makes a second one impossible.
INSERT INTO idempotency_keys (
    owner_user_id, route, request_key, parameters_digest, resource_id, outcome_json, created_at
)
VALUES (:owner_id, :route, :request_key, :parameters_digest, :resource_id, :outcome_json, :now);

-- name: forget_outcomes
-- By idempotency_keys_by_age, from its start: a bounded number.
DELETE FROM idempotency_keys WHERE (owner_user_id, route, request_key) IN (
    SELECT owner_user_id, route, request_key FROM idempotency_keys
    WHERE created_at <= :before ORDER BY created_at LIMIT :limit
);

-- name: begin_import
-- One row.
INSERT INTO open_imports (owner_user_id, opened_at) VALUES (:owner_id, :now) RETURNING id;

-- name: import_is_open
-- One row, by key.
SELECT 1 FROM open_imports WHERE id = :import_id AND discarded_at IS NULL;

-- name: count_imported
-- By tasks_by_import: the tasks of one import.
SELECT count(*) FROM tasks WHERE import_id = :import_id;

-- name: publish_import
-- One row, by key: its absence makes every task of the import visible at once, however many there are.
DELETE FROM open_imports WHERE id = :import_id AND discarded_at IS NULL;

-- name: abandoned_imports
-- By open_imports_by_age.
SELECT id FROM open_imports WHERE opened_at < :before ORDER BY opened_at LIMIT :limit;

-- name: discard_import
-- One row, by key: from here on the import can be neither added to nor published.
UPDATE open_imports SET discarded_at = coalesce(discarded_at, :now) WHERE id = :import_id;

-- name: remove_imported_tasks
-- By tasks_by_import, a bounded number; only while the import is still open, or its tasks would be visible ones.
DELETE FROM tasks WHERE rowid IN (
    SELECT tasks.rowid FROM tasks
    WHERE tasks.import_id = :import_id AND EXISTS (SELECT 1 FROM open_imports WHERE id = :import_id)
    LIMIT :limit
);

-- name: forget_import
-- One row, by key, once it has no task left.
DELETE FROM open_imports
WHERE id = :import_id AND NOT EXISTS (SELECT 1 FROM tasks WHERE import_id = :import_id);

-- name: import_is_left
-- One row, by key.
SELECT 1 FROM open_imports WHERE id = :import_id;
