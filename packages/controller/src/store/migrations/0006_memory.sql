-- The memory of replicas: facts about model files, and where a replica is booked.

-- Content of model files: the header of GGUF files decides how much memory a replica needs.
create table file_contents (
  digest text primary key check (digest ~ '^sha256:[0-9a-f]{64}$'),
  size_bytes bigint check (size_bytes >= 0),
  -- Null: not a GGUF file, or its header was not read.
  facts jsonb check (jsonb_typeof(facts) = 'object'),
  -- A worker read it from verified content; false: a controller read it from its source.
  is_verified boolean not null,
  updated_at timestamptz not null default now()
);

-- Files that a configuration names without a hash, by model and name, as a worker last fetched them or a controller read them.
create table model_files (
  model text not null references models (name) on delete cascade,
  filename text not null check (length(filename) between 1 and 1024),
  -- Null: no worker has fetched it yet.
  digest text check (digest ~ '^sha256:[0-9a-f]{64}$'),
  size_bytes bigint check (size_bytes >= 0),
  -- Read from its source, while the digest is unknown.
  facts jsonb check (jsonb_typeof(facts) = 'object'),
  updated_at timestamptz not null default now(),
  primary key (model, filename)
);

-- {device, card}: where the memory of the replica is booked. Null for replicas of older controllers.
alter table replicas add column booking jsonb
  check (jsonb_typeof(booking) = 'object' and booking ->> 'device' in ('cpu', 'gpu'));
