-- name: add_user
-- Uniqueness of the name is the schema's.
INSERT INTO users (name, created_at) VALUES (:name, :now) RETURNING id, name, created_at, disabled_at;

-- name: find_user
-- One row, by the unique index on name.
SELECT id, name, created_at, disabled_at FROM users WHERE name = :name;

-- name: get_user
-- One row, by key.
SELECT id, name, created_at, disabled_at FROM users WHERE id = :id;

-- name: all_users
-- For operators: every user, in the order of the unique index on name.
SELECT id, name, created_at, disabled_at FROM users ORDER BY name;

-- name: set_user_disabled
-- One row, by key.
UPDATE users SET disabled_at = :at WHERE id = :id;

-- name: add_token
-- One row.
INSERT INTO api_tokens (id, user_id, token_hash, scopes, created_at, revoked_at)
VALUES (:id, :user_id, :token_hash, :scopes, :created_at, :revoked_at);

-- name: tokens_of_user
-- By api_tokens_by_user: the tokens of one user.
SELECT id, user_id, token_hash, scopes, created_at, revoked_at
FROM api_tokens WHERE user_id = :user_id ORDER BY created_at, id;

-- name: revoke_token
-- One row, by key; a second time changes nothing.
UPDATE api_tokens SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL;

-- name: principal
-- Two rows, each by a unique index: on every request, so nothing else may be needed.
SELECT users.id, users.name, api_tokens.id, api_tokens.scopes
FROM api_tokens JOIN users ON users.id = api_tokens.user_id
WHERE api_tokens.token_hash = :token_hash AND api_tokens.revoked_at IS NULL AND users.disabled_at IS NULL;
