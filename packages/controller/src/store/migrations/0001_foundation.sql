-- The ground: who may call, which machines there are, how they are, and what changed last.

-- ── What changed ─────────────────────────────────────────────────────────────────────────────
-- One row per object, carrying the sequence number of its last change. Whoever knows a number can
-- ask for everything that changed since. Numbers are drawn before commit, so a reader may see 7
-- before 6: events/checkpoint.ts says how far a reader may trust what it saw.
create sequence change_seq;

create table changes (
  kind text not null,
  id text not null,
  seq bigint not null,
  deleted boolean not null,
  at timestamptz not null,
  primary key (kind, id)
);
create index changes_by_seq on changes (seq);

-- Deleted objects are forgotten after a while; who asks for changes since before that must start anew.
create table change_floor (
  one boolean primary key default true check (one),
  seq bigint not null
);
insert into change_floor (seq) values (0);

-- Update first, insert second (not `on conflict`): the number must be drawn while the row's lock is
-- held, or a later commit could carry a smaller number than an earlier one.
create function record_change(change_kind text, change_id text, is_deleted boolean) returns void language plpgsql as $$
begin
  loop
    update changes set seq = nextval('change_seq'), deleted = is_deleted, at = clock_timestamp()
    where kind = change_kind and id = change_id;
    exit when found;
    begin
      insert into changes (kind, id, seq, deleted, at)
      values (change_kind, change_id, nextval('change_seq'), is_deleted, clock_timestamp());
      exit;
    exception when unique_violation then
      null; -- somebody else inserted it meanwhile: update theirs
    end;
  end loop;
  perform pg_notify('muster_changes', '');
end
$$;

-- ── Who may call ─────────────────────────────────────────────────────────────────────────────
-- Secrets are random and long, so a plain SHA-256 of them is enough; the secrets themselves are nowhere.
create table api_keys (
  id text primary key,
  name text not null,
  scope text not null check (scope in ('inference', 'read', 'admin')),
  secret_sha256 text not null unique check (secret_sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);

create table join_tokens (
  secret_sha256 text primary key check (secret_sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz not null default now()
);

create table login_links (
  secret_sha256 text primary key check (secret_sha256 ~ '^[0-9a-f]{64}$'),
  expires_at timestamptz not null
);

create table browser_sessions (
  secret_sha256 text primary key check (secret_sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);

-- ── Controllers ──────────────────────────────────────────────────────────────────────────────
create table controllers (
  id text primary key,
  url text not null,
  version text not null,
  started_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now()
);

-- ── Nodes ────────────────────────────────────────────────────────────────────────────────────
-- What a node is and what an administrator said of it. A node is its key; its name is a label.
create table nodes (
  id text primary key check (id ~ '^[a-z0-9-]{1,63}$'),
  public_key text not null unique check (public_key ~ '^U[A-Z2-7]{55}$'),
  name text not null check (length(name) between 1 and 255),
  node_type text not null check (node_type in ('backend', 'agent')),
  version text not null,
  features text[] not null,
  os text not null,
  arch text not null,
  capability text not null,
  gateway_url text not null,
  -- Labels that the worker brings, and what an administrator set over them (null: taken away).
  reported_labels jsonb not null,
  label_overrides jsonb not null default '{}',
  vram_budget text,
  draining boolean not null default false,
  -- The process that speaks for this node now; others with the same key are refused.
  incarnation text not null,
  inventory jsonb not null default '[]',
  created_at timestamptz not null default now(),
  approved_at timestamptz,
  approved_by text,
  constraint approval_is_whole check ((approved_at is null) = (approved_by is null))
);

-- How a node is: written with every heartbeat, so kept apart from what rarely changes, and without
-- an index on anything that changes (updates stay heap-only; the sweep reads all rows, which for
-- 8,000 nodes costs about a millisecond). protocol/states/node.ts owns the meaning.
create table node_pulses (
  node_id text primary key references nodes (id) on delete cascade,
  liveness text not null default 'new' check (liveness in ('new', 'present', 'silent', 'gone', 'left')),
  answering text not null default 'yes' check (answering in ('yes', 'unproven', 'no')),
  last_seen_at timestamptz,
  incarnation text,
  seq bigint,
  resources jsonb not null,
  in_flight integer not null default 0 check (in_flight >= 0),
  -- When commands were last found to go unanswered, or the proof was last asked for: paces the probes.
  probed_at timestamptz,
  constraint present_was_seen check (liveness <> 'present' or last_seen_at is not null)
) with (fillfactor = 60);

create function node_changed() returns trigger language plpgsql as $$
begin
  perform record_change('node', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$$;
create trigger node_changed after insert or update or delete on nodes
  for each row execute function node_changed();

create function node_pulse_changed() returns trigger language plpgsql as $$
begin
  perform record_change('node', new.node_id, false);
  return null;
end
$$;
-- Numbers that tick with every heartbeat are not news; a change of state is.
create trigger node_pulse_changed after update on node_pulses
  for each row when (old.liveness <> new.liveness or old.answering <> new.answering)
  execute function node_pulse_changed();
