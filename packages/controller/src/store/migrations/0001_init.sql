-- The schema of the first release. Migrations are never edited once they are released; the next change is 0002_….

-- ── Changes ──────────────────────────────────────────────────────────────────────────────────
-- One row per object with the sequence number of its last change, so a reader that knows a number can read everything that
-- changed since. Numbers are drawn before commit, so 7 may become visible before 6: events/checkpoint.ts decides how far a
-- reader may trust what it saw.
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

-- Deleted objects are dropped after a while; a reader whose number is older than this one must start from scratch.
create table change_floor (
  one boolean primary key default true check (one),
  seq bigint not null
);
insert into change_floor (seq) values (0);

-- Update first, insert second (not `on conflict`): the number must be drawn while the row's lock is held, or a later commit
-- could carry a smaller number than an earlier one.
-- A session notifies at most every 250 ms: PostgreSQL commits transactions with a notification one at a time, including their
-- write to disk, so a notification per change would put hundreds of commits a second in one line. Notified readers read again
-- on their own for a while (events/feed.ts).
-- Statements that record many changes do so in one order (nodes, operations, backends, each by id), which avoids deadlocks.
create function record_change(change_kind text, change_id text, is_deleted boolean) returns void language plpgsql as $$
declare
  now_ms constant bigint := extract(epoch from clock_timestamp()) * 1000;
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
      null; -- inserted concurrently: update that row
    end;
  end loop;
  if now_ms - coalesce(nullif(current_setting('muster.notified_at', true), ''), '0')::bigint > 250 then
    perform set_config('muster.notified_at', now_ms::text, false);
    perform pg_notify('muster_changes', '');
  end if;
end
$$;

-- ── Access ───────────────────────────────────────────────────────────────────────────────────
-- Secrets are long and random, so a plain SHA-256 is enough; the secrets themselves are not stored.
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
  created_at timestamptz not null default now(),
  -- Null: the token that controllers are configured with, or created at their first start; it does not expire.
  expires_at timestamptz
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

create table idempotency_keys (
  key text not null,
  caller text not null,
  request_sha256 text not null,
  status integer not null,
  response jsonb not null,
  created_at timestamptz not null default now(),
  primary key (caller, key)
);

-- ── Controllers ──────────────────────────────────────────────────────────────────────────────
create table controllers (
  id text primary key,
  url text not null,
  version text not null,
  started_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  -- The last change that its routing table includes.
  routes_seq bigint not null default 0
);

-- Periodic work that one controller at a time does for all.
create table duties (
  name text primary key,
  holder text,
  lease_until timestamptz,
  done_at timestamptz,
  report jsonb not null default '{}'
);

-- ── Galleries ────────────────────────────────────────────────────────────────────────────────
-- The built-in gallery is part of the program and not listed here.
create table galleries (
  name text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  url text not null check (length(url) between 1 and 2048),
  kind text not null check (kind in ('backend', 'model')),
  -- Added by a controller's command line, or by an administrator.
  origin text not null check (origin in ('setting', 'api')),
  created_at timestamptz not null default now()
);

-- The versions that galleries and registries last offered, for backends that are installed somewhere.
create table available_backends (
  backend text not null,
  concrete text not null,
  platform text not null,
  uri text not null,
  digest text not null,
  version text not null,
  checked_at timestamptz not null default now(),
  primary key (backend, concrete, platform)
);

-- Workers receive the galleries in their sessions, which a change wakes.
create function galleries_changed() returns trigger language plpgsql as $$
begin
  perform record_change('settings', 'galleries', false);
  return null;
end
$$;
create trigger galleries_added after insert or delete on galleries for each row execute function galleries_changed();
-- Every controller writes the galleries of its command line at its start; an equal row is no change.
create trigger galleries_updated after update on galleries
  for each row when (old.url <> new.url or old.kind <> new.kind) execute function galleries_changed();

-- ── Nodes ────────────────────────────────────────────────────────────────────────────────────
-- A node is its key; its name is a label.
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
  -- Labels that the worker reports, and those an administrator set over them (null: removed).
  reported_labels jsonb not null,
  label_overrides jsonb not null default '{}',
  vram_budget text,
  draining boolean not null default false,
  -- The worker process that owns this node now; others with the same key are refused.
  incarnation text not null,
  -- When its worker signed its newest registration. A request may wait in the socket of a hung controller, or be replayed: an
  -- older one of another process must not take the node over.
  registration_signed_at timestamptz,
  -- Its backends. Two inventories of one process are ordered by their number.
  inventory jsonb not null default '[]',
  inventory_incarnation text,
  inventory_seq bigint,
  inventory_at timestamptz,
  -- Digests of the model files it has: [{digest, size}].
  files jsonb not null default '[]',
  -- Authenticates controllers at the worker's gateway (ADR 12).
  gateway_secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  created_at timestamptz not null default now(),
  approved_at timestamptz,
  approved_by text,
  constraint approval_is_whole check ((approved_at is null) = (approved_by is null))
);

-- Written with every heartbeat, so it is a table of its own without an index on anything that changes: updates stay heap-only.
-- The sweep reads all rows, about a millisecond for 8,000 nodes. protocol/states/node.ts owns the meaning.
create table node_pulses (
  node_id text primary key references nodes (id) on delete cascade,
  liveness text not null default 'new' check (liveness in ('new', 'present', 'silent', 'gone', 'left')),
  answering text not null default 'yes' check (answering in ('yes', 'unproven', 'no')),
  last_seen_at timestamptz,
  incarnation text,
  seq bigint,
  resources jsonb not null,
  -- When the worker measured its resources, as far as known; never later than that.
  reported_at timestamptz,
  in_flight integer not null default 0 check (in_flight >= 0),
  -- When a command last went unanswered, or the last probe was sent: paces the probes.
  probed_at timestamptz,
  constraint present_was_seen check (liveness <> 'present' or last_seen_at is not null)
) with (fillfactor = 60);

-- ── Operations and intents ───────────────────────────────────────────────────────────────────
-- An operation is one request of an administrator. protocol/states/operation.ts owns the meaning.
create table operations (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  kind text not null check (kind in ('backend.install', 'backend.upgrade', 'backend.delete', 'model.install', 'model.load', 'model.unload', 'model.delete')),
  backend text,
  model text,
  requested_by text not null,
  options jsonb not null default '{}',
  -- The highest progress shown so far: a bar never goes back.
  progress real not null default 0 check (progress between 0 and 100),
  file_name text not null default '',
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  outcome text check (outcome in ('succeeded', 'failed', 'cancelled')),
  message text not null default '',
  current_bytes bigint not null default 0 check (current_bytes >= 0),
  total_bytes bigint not null default 0 check (total_bytes >= 0),
  cancel_requested boolean not null default false,
  constraint operation_is_about_one_thing check ((backend is null) <> (model is null)),
  constraint outcome_is_of_a_model check (case when model is null then outcome is null else (finished_at is null) = (outcome is null) end)
);
create index operations_active on operations (created_at desc) where finished_at is null;
create index operations_finished on operations (finished_at desc) where finished_at is not null;

-- A generation names one intent and is never used again.
create sequence intent_generation;

-- The durable demand on one node for one backend. protocol/states/intent.ts owns the meaning.
create table intents (
  node_id text not null references nodes (id) on delete cascade,
  backend text not null check (backend ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$'),
  kind text not null check (kind in ('install', 'upgrade', 'delete')),
  generation bigint not null unique,
  -- Names one try: it grows with every claim and is part of the command; reports of an older try settle nothing.
  epoch bigint not null default 0,
  op_id text not null,
  -- Operations of superseded intents that the worker may still work on: a cancel has to reach them too.
  replaced text[] not null default '{}',
  -- Everything a try needs, fixed when the operation was submitted.
  plan jsonb not null,
  attempts integer not null default 0 check (attempts >= 0),
  last_failure jsonb,
  cancel_requested boolean not null default false,
  state text not null check (state in ('waiting', 'sending', 'working', 'applied', 'failed', 'dead', 'cancelled')),
  next_at timestamptz,
  -- Its node is away: not considered however due it is, so thousands of intents of absent nodes cost the others nothing. Set
  -- and cleared when the node's status changes; a sweep repairs what a race left behind (IntentStore.park).
  is_parked boolean not null default false,
  -- Its ring of the rollout has not begun: not tried.
  awaits_ring boolean not null default false,
  was_sent boolean not null default false,
  wait text check (wait in ('result', 'reply', 'another_try')),
  holder text,
  lease_until timestamptz,
  accepted_at timestamptz,
  -- The last sign of life of the work.
  sign_at timestamptz,
  is_overdue boolean not null default false,
  finished_at timestamptz,
  note text not null default '',
  -- Last reported progress of this attempt.
  phase text check (phase in ('resolving', 'downloading', 'extracting', 'starting')),
  file_name text not null default '',
  current_bytes bigint not null default 0 check (current_bytes >= 0),
  total_bytes bigint not null default 0 check (total_bytes >= 0),
  percentage real not null default 0 check (percentage between 0 and 100),
  progress_seq bigint,
  -- The first epoch of this attempt. Progress names its epoch; that of an older one is about an attempt that failed.
  tried_since bigint not null default 0,
  -- When the worker was last queried for its status.
  polled_at timestamptz,
  requested_at timestamptz not null default now(),
  -- Optimistic counter: a write that was decided on an older version changes nothing.
  row_version bigint not null default 0,
  primary key (node_id, backend),
  constraint intent_is_one_case check (case state
    when 'waiting' then next_at is not null and wait is null and holder is null and lease_until is null and accepted_at is null and finished_at is null
    when 'sending' then next_at is null and wait is null and holder is not null and lease_until is not null and accepted_at is null and finished_at is null
    when 'working' then accepted_at is not null and sign_at is not null and finished_at is null and case wait
      when 'result' then holder is null and lease_until is null and next_at is null
      when 'reply' then holder is not null and lease_until is not null and next_at is null
      when 'another_try' then holder is null and lease_until is null and next_at is not null
      else false end
    when 'failed' then finished_at is not null and last_failure is not null and next_at is null and wait is null and holder is null
    when 'dead' then finished_at is not null and last_failure is not null and next_at is null and wait is null and holder is null
    else finished_at is not null and next_at is null and wait is null and holder is null end)
);
create index intents_due on intents (next_at, generation) where next_at is not null and not is_parked and not awaits_ring;
create index intents_leased on intents (lease_until) where lease_until is not null;
create index intents_open_by_node on intents (node_id, generation) where state in ('waiting', 'sending', 'working');
create index intents_working on intents (accepted_at) where state = 'working';

-- One node of an operation. While it is `open`, its intent (by generation) tells how it is.
create table operation_nodes (
  operation_id text not null references operations (id) on delete cascade,
  node_id text not null,
  node_name text not null,
  generation bigint,
  status text not null check (status in ('open', 'success', 'error', 'cancelled', 'skipped')),
  message text not null default '',
  error text,
  error_code text,
  attempts integer not null default 0,
  dead boolean not null default false,
  current_bytes bigint not null default 0,
  total_bytes bigint not null default 0,
  percentage real not null default 0,
  ring integer,
  finished_at timestamptz,
  shown text check (shown in ('queued', 'downloading', 'running_on_worker', 'error')),
  phase text check (phase in ('resolving', 'downloading', 'extracting', 'starting')),
  file_name text not null default '',
  next_retry_at timestamptz,
  -- The generation of the applied intent while the node's replicas are moved and watched.
  proving bigint,
  -- The plan that a failed rollout returns the node to; null when it is unknown.
  previous jsonb,
  primary key (operation_id, node_id),
  constraint operation_node_is_one_case check (case status
    when 'open' then (generation is null) <> (shown is null) and not dead and finished_at is null
      and (shown = 'error' or (error is null and error_code is null))
    when 'error' then error is not null and error_code is not null and finished_at is not null
    else error is null and error_code is null and not dead and finished_at is not null
  end)
);
create index operation_nodes_by_generation on operation_nodes (generation);
create index operation_nodes_open_by_node on operation_nodes (node_id) where status = 'open';
create index operation_nodes_proving on operation_nodes (proving) where proving is not null;

-- An operation about a backend is finished while none of its nodes is open. Statements that settle or reopen its nodes call this.
-- Two transactions that settle the last two nodes do not see each other's rows: the second one waits for the operation's lock
-- here, and then reads anew. That needs a snapshot of its own, which only a function has within a statement.
create function update_finished_at(wanted text) returns void language plpgsql as $$
begin
  perform from operations where id = wanted for no key update;
  update operations o set finished_at = case when o.finished_at is null then now() end
  where o.id = wanted and o.backend is not null
    and (o.finished_at is null) <> exists (select from operation_nodes n where n.operation_id = o.id and n.finished_at is null);
end
$$;

-- History of intents, written in the transaction of the event. Append-only; old rows are deleted with the operations' history.
create table intent_events (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  node_id text not null,
  backend text not null,
  generation bigint not null,
  epoch bigint not null,
  type text not null,
  detail jsonb not null default '{}'
);
create index intent_events_by_row on intent_events (node_id, backend, id);
create function intent_events_are_history() returns trigger language plpgsql as $$
begin
  raise exception 'intent_events is append-only';
end
$$;
create trigger intent_events_are_history before update on intent_events
  for each row execute function intent_events_are_history();

-- An upgrade that goes from ring to ring, shown through its operation. It has no lease: a round reads, decides and writes in one
-- transaction, and the next round on any controller comes to the same decision.
create table rollouts (
  operation_id text primary key references operations (id) on delete cascade,
  backend text not null,
  -- {canary, maxParallel, minHealthyMs}
  spec jsonb not null,
  state text not null check (state in ('running', 'returning', 'succeeded', 'failed', 'cancelled')),
  -- The current ring; the last one when it is over.
  ring integer not null default 1 check (ring >= 1),
  rings integer not null check (rings >= 1),
  -- Since when everything in the current ring is healthy.
  well_since timestamptz,
  -- How many replicas still have to be moved, and since when it is that many.
  waits_for integer,
  waits_since timestamptz,
  -- Why it is rolled back.
  failure jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint wait_is_whole check ((waits_for is null) = (waits_since is null)),
  constraint rollout_is_one_case check (case state
    when 'running' then finished_at is null and failure is null
    when 'returning' then finished_at is null and failure is not null
    when 'failed' then finished_at is not null and failure is not null
    else finished_at is not null and failure is null
  end)
);
create index rollouts_open on rollouts (created_at) where finished_at is null;

-- ── Models, loads and replicas ───────────────────────────────────────────────────────────────
create table models (
  name text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}$' and name !~ '\.\.|//'),
  config jsonb not null,
  -- Of its meaning: backend, parameters, context_size, files, options.
  revision text not null check (length(revision) between 1 and 128),
  backend text not null,
  -- How many replicas requests and `load` demand, beyond those of its scheduling.
  requested_replicas integer not null default 0 check (requested_replicas >= 0),
  -- Unloaded by hand: no replicas, whatever its minimum, until the next load, request or scheduling change.
  is_unloaded boolean not null default false,
  used_at timestamptz,
  -- Since when all its replicas are busy, and since when fewer would do.
  busy_since timestamptz,
  slack_since timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- The parameters of the last load. Outlives every replica; deleted with the model.
create table model_load_info (
  model text primary key check (model <> ''),
  backend text not null,
  revision text not null,
  options jsonb not null,
  updated_at timestamptz not null default clock_timestamp()
);

-- Uploaded files by model and name.
create table model_uploads (
  model text not null,
  filename text not null,
  digest text not null check (digest ~ '^sha256:[0-9a-f]{64}$'),
  size_bytes bigint not null check (size_bytes >= 0),
  uploaded_at timestamptz not null default now(),
  primary key (model, filename)
);

-- The demand for one replica of a model. `stage`: for its files on some node, without starting anything.
-- protocol/states/load.ts owns the meaning.
create table loads (
  model text not null references models (name) on delete cascade,
  purpose text not null check (purpose in ('serve', 'stage')),
  ordinal integer not null check (ordinal >= 0),
  revision text not null,
  -- The operation that shows it, if it was requested by one.
  operation_id text,
  state text not null check (state in ('waiting', 'installing', 'starting', 'ready', 'failed')),
  -- Names one try; part of the command.
  epoch bigint not null default 0,
  -- The worker's id of this try, named by progress and result.
  op_id text,
  node_id text references nodes (id) on delete set null,
  -- It replaces a replica on that node, so it must run there.
  pinned_node_id text references nodes (id) on delete set null,
  replica_id text,
  -- The operation that installs the backend on that node, which it waits for.
  install_id text,
  -- Its replica is checked before it gets requests, because another one serves until then.
  needs_check boolean not null default false,
  attempts integer not null default 0 check (attempts >= 0),
  failure jsonb,
  failed_at timestamptz,
  next_at timestamptz,
  holder text,
  lease_until timestamptz,
  sign_at timestamptz,
  phase text check (phase in ('resolving', 'downloading', 'extracting', 'starting')),
  file_name text not null default '',
  current_bytes bigint not null default 0 check (current_bytes >= 0),
  total_bytes bigint not null default 0 check (total_bytes >= 0),
  progress_seq bigint,
  -- A replica ended to make room for it, since its revision changed last.
  is_room_made boolean not null default false,
  -- Shown with it: for example that the old replica had to end first.
  note text not null default '',
  requested_at timestamptz not null default now(),
  row_version bigint not null default 0,
  primary key (model, purpose, ordinal),
  constraint load_is_one_case check (case state
    when 'waiting' then replica_id is null and install_id is null and next_at is not null
    when 'installing' then node_id is not null and install_id is not null and replica_id is null and next_at is not null
    when 'starting' then node_id is not null and op_id is not null and (replica_id is not null or purpose = 'stage') and next_at is not null
    when 'ready' then (replica_id is not null or purpose = 'stage') and next_at is null and failure is null
    -- Without a next time: the cause does not heal, or the replica is not in demand.
    when 'failed' then failure is not null and failed_at is not null and replica_id is null and install_id is null
  end),
  constraint lease_is_whole check ((holder is null) = (lease_until is null))
);
create index loads_due on loads (next_at) where next_at is not null;
create index loads_by_op on loads (op_id) where op_id is not null;
create index loads_by_replica on loads (replica_id) where replica_id is not null;

create table replicas (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  -- No reference: a process may outlive its model by a moment.
  model text not null,
  revision text not null,
  -- Of the load that it belongs to. Null: another replica took its place; it is ending.
  ordinal integer check (ordinal >= 0),
  node_id text not null references nodes (id) on delete cascade,
  -- Which of the model's processes on its node it is, as the worker knows it; never changes.
  slot integer not null default 0 check (slot >= 0),
  backend text not null,
  backend_digest text,
  -- Its parameters at the start.
  config jsonb not null,
  state text not null check (state in ('starting', 'ready', 'draining', 'exited')),
  op_id text,
  -- The last event or heartbeat of the worker that was recorded.
  incarnation text,
  seq bigint,
  -- Only a replica that passed its check gets requests.
  checked text not null default 'passed' check (checked in ('due', 'passed', 'failed')),
  check_holder text,
  check_until timestamptz,
  -- Since when it is checked without a pause, and so for how long it has been unreachable.
  check_since timestamptz,
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  drain_since timestamptz,
  -- When its worker was last commanded to end it.
  stop_sent_at timestamptz,
  exited_at timestamptz,
  -- {exit_code?, signal?, last_lines?, expected?}
  exit jsonb,
  constraint check_lease_is_whole check ((check_holder is null) = (check_until is null)),
  constraint replica_is_one_case check (case state
    when 'starting' then ready_at is null and drain_since is null and exited_at is null
    when 'ready' then ready_at is not null and drain_since is null and exited_at is null
    when 'draining' then drain_since is not null and exited_at is null
    else exited_at is not null
  end)
);
-- W30: at most one live process per load. I11, W30: and at most one per node, model and slot.
create unique index one_live_replica_per_load on replicas (model, ordinal) where ordinal is not null and state <> 'exited';
create unique index one_live_replica_per_slot on replicas (node_id, model, slot) where state <> 'exited';
create index replicas_live on replicas (model) where state <> 'exited';
create index replicas_by_node on replicas (node_id) where state <> 'exited';
create index replicas_exited on replicas (exited_at) where state = 'exited';
create index replicas_to_check on replicas (id) where checked = 'due' and state = 'ready';

-- Files of deleted models that nodes have, or may have. A row is deleted when its node confirmed the removal.
create table model_removals (
  node_id text not null references nodes (id) on delete cascade,
  model text not null,
  operation_id text not null,
  attempts integer not null default 0,
  last_failure jsonb,
  next_at timestamptz not null default now(),
  holder text,
  lease_until timestamptz,
  primary key (node_id, model),
  constraint removal_lease_is_whole check ((holder is null) = (lease_until is null))
);

-- Requests by time, model and node, summed over all controllers.
create table stats_buckets (
  at timestamptz not null,
  model text not null,
  node_id text not null,
  requests bigint not null default 0,
  errors bigint not null default 0,
  client_errors bigint not null default 0,
  overloaded bigint not null default 0,
  prompt_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  in_flight integer not null default 0,
  duration_ms bigint not null default 0,
  primary key (at, model, node_id)
);

-- ── Changes of nodes ─────────────────────────────────────────────────────────────────────────
create function node_changed() returns trigger language plpgsql as $$
begin
  perform record_change('node', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$$;
create trigger node_changed after insert or delete on nodes for each row execute function node_changed();
-- The number and time of an inventory are no change; its content is.
create trigger node_edited after update on nodes for each row
  when ((to_jsonb(old) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[])
    is distinct from (to_jsonb(new) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[]))
  execute function node_changed();

-- This trigger, and those above and below whose names end in `_changed`, `_added` or `_edited`, decide nothing: they record a change.
create function node_pulse_changed() returns trigger language plpgsql as $$
begin
  perform record_change('node', new.node_id, false);
  return null;
end
$$;
-- Figures that differ with every heartbeat are no change; liveness is.
create trigger node_pulse_changed after update on node_pulses
  for each row when (old.liveness <> new.liveness or old.answering <> new.answering)
  execute function node_pulse_changed();

create function operations_of_nodes_changed(node_ids text[]) returns void language sql as $$
  select record_change('operation', o.operation_id, false) from (
    select distinct operation_id from operation_nodes where node_id = any(node_ids) and status = 'open' order by operation_id
  ) o
$$;

-- Whether commands are sent to a node: it is healthy, or a try finds out whether it answers again.
create function node_may_be_tried(wanted text) returns boolean stable language sql as $$
  select coalesce((
    select n.approved_at is not null and n.node_type <> 'agent' and not n.draining and p.liveness = 'present' and p.answering <> 'unproven'
    from nodes n join node_pulses p on p.node_id = n.id where n.id = wanted
  ), false)
$$;

-- A node that is back is tried at once, one that is away is not considered, and operations show the node's new status.
create function nodes_turned(node_ids text[], returned text[]) returns void language plpgsql as $$
begin
  update intents i set is_parked = not node_may_be_tried(i.node_id),
    next_at = case when i.node_id = any(returned) then least(i.next_at, now()) else i.next_at end, row_version = i.row_version + 1
  where i.node_id = any(node_ids) and i.state = 'waiting';
  perform operations_of_nodes_changed(node_ids);
end
$$;

-- A worker without `async` remembers nothing: the work of its old process is lost, and the request that waits for its reply
-- waits in vain. With a new process that work is due again, and with its return everything that was due later.
-- A trigger, because six statements write pulses (store/pulses.ts, store/nodes.ts), and each has these consequences in its own
-- transaction: a node that is back is tried without waiting for a round of the reconciler.
create function node_pulses_turned() returns trigger language plpgsql as $$
declare
  turned text[];
  returned text[];
  restarted text[];
begin
  select array_agg(n.node_id order by n.node_id) filter (where n.liveness <> o.liveness or n.answering <> o.answering),
    array_agg(n.node_id order by n.node_id) filter (where (n.liveness <> o.liveness or n.answering <> o.answering)
      and n.liveness = 'present' and n.answering = 'yes'),
    array_agg(n.node_id order by n.node_id) filter (where n.incarnation is distinct from o.incarnation and o.incarnation is not null)
  into turned, returned, restarted
  from new_pulses n join old_pulses o on o.node_id = n.node_id
  where n.liveness <> o.liveness or n.answering <> o.answering or n.incarnation is distinct from o.incarnation;
  if returned is not null then
    update intents set next_at = now(), row_version = row_version + 1
    where node_id = any(returned) and wait = 'another_try' and next_at > now();
  end if;
  if restarted is not null then
    update intents set wait = 'another_try', next_at = now(), holder = null, lease_until = null, row_version = row_version + 1
    where node_id = any(restarted) and wait in ('reply', 'another_try');
  end if;
  if turned is not null then perform nodes_turned(turned, coalesce(returned, '{}')); end if;
  return null;
end
$$;
create trigger node_pulses_turned after update on node_pulses
  referencing old table as old_pulses new table as new_pulses
  for each statement execute function node_pulses_turned();

create function node_drained() returns trigger language plpgsql as $$
begin
  perform nodes_turned(array[new.id], case when new.draining then '{}'::text[] else array[new.id] end);
  return null;
end
$$;
create trigger node_drained after update of draining on nodes
  for each row when (old.draining <> new.draining) execute function node_drained();

create function node_inventory_changed() returns trigger language plpgsql as $$
begin
  perform record_change('backend', b.name, false) from (
    select name from (
      (select e ->> 'name' as name, e from jsonb_array_elements(new.inventory) e
       except select e ->> 'name', e from jsonb_array_elements(old.inventory) e)
      union
      (select e ->> 'name' as name, e from jsonb_array_elements(old.inventory) e
       except select e ->> 'name', e from jsonb_array_elements(new.inventory) e)
    ) d where name is not null group by name order by name
  ) b;
  return null;
end
$$;
create trigger node_inventory_changed after update of inventory on nodes
  for each row when (old.inventory <> new.inventory) execute function node_inventory_changed();

-- ── Changes of models ────────────────────────────────────────────────────────────────────────
create function model_changed() returns trigger language plpgsql as $$
begin
  perform record_change('model', case when tg_op = 'DELETE' then old.name else new.name end, tg_op = 'DELETE');
  return null;
end
$$;
create trigger model_added after insert or delete on models for each row execute function model_changed();
-- Use is no change of a model: used_at is written every ten seconds.
create trigger model_changed after update on models for each row
  when (to_jsonb(old) - '{used_at,busy_since,slack_since}'::text[] is distinct from to_jsonb(new) - '{used_at,busy_since,slack_since}'::text[])
  execute function model_changed();

-- A load is shown with its model. Bytes and leases are no change, nor is another look at a model that found no node: that
-- happens with every change of any node.
create function load_changed() returns trigger language plpgsql as $$
declare
  model_name text := case when tg_op = 'DELETE' then old.model else new.model end;
begin
  if exists (select from models m where m.name = model_name) then perform record_change('model', model_name, false); end if;
  return null;
end
$$;
create trigger load_added after insert or delete on loads for each row execute function load_changed();
create trigger load_changed after update on loads for each row
  when (old.state is distinct from new.state or old.node_id is distinct from new.node_id or old.failure is distinct from new.failure
    or old.phase is distinct from new.phase or old.next_at is distinct from new.next_at and new.state = 'failed' and new.failure ->> 'code' is distinct from 'no_capacity')
  execute function load_changed();

-- An exited replica is shown neither with its model nor with its node, so its deletion changes neither.
create function replica_changed() returns trigger language plpgsql as $$
declare
  model_name text := case when tg_op = 'DELETE' then old.model else new.model end;
begin
  if tg_op = 'DELETE' and old.state = 'exited' then
    perform record_change('replica', old.id, true);
    return null;
  end if;
  if exists (select from models m where m.name = model_name) then perform record_change('model', model_name, false); end if;
  perform record_change('node', n.id, false) from nodes n where n.id = case when tg_op = 'DELETE' then old.node_id else new.node_id end;
  perform record_change('replica', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$$;
create trigger replica_added after insert or delete on replicas for each row execute function replica_changed();
-- A passed check and a new incarnation of its worker change where requests go.
create trigger replica_changed after update on replicas for each row
  when (old.state is distinct from new.state or old.ordinal is distinct from new.ordinal or old.checked is distinct from new.checked
    or old.incarnation is distinct from new.incarnation)
  execute function replica_changed();
