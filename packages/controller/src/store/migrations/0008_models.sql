-- Models, the replicas that serve them, and the loads that bring replicas up.

-- Proof of who a controller is at a worker's gateway. Whoever can read it can ask that worker's replicas, and whoever can
-- write here decides what runs on every worker anyway (ADR 12).
alter table nodes add column gateway_secret text not null
  default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
-- Digests of model files that a node keeps, as its inventory says: [{digest, size}].
alter table nodes add column files jsonb not null default '[]';

create table models (
  name text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}$' and name !~ '\.\.|//'),
  config jsonb not null,
  -- Of its meaning: backend, parameters, context_size, files, options.
  revision text not null check (length(revision) between 1 and 128),
  backend text not null,
  -- How many replicas requests and `load` ask for, beyond what its scheduling does.
  asked_replicas integer not null default 0 check (asked_replicas >= 0),
  -- Unloaded by hand: none, also against its minimum, until the next load, request or scheduling change.
  is_held boolean not null default false,
  used_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- What a model was last loaded with. Outlives every replica, goes with the model.
create table model_load_info (
  model text primary key check (model <> ''),
  backend text not null,
  revision text not null,
  options jsonb not null,
  updated_at timestamptz not null default clock_timestamp()
);

-- Which name of a model stands for which uploaded content.
create table model_uploads (
  model text not null,
  filename text not null,
  digest text not null check (digest ~ '^sha256:[0-9a-f]{64}$'),
  size_bytes bigint not null check (size_bytes >= 0),
  uploaded_at timestamptz not null default now(),
  primary key (model, filename)
);

-- One job per slot of a model: to have a replica there. `stage`: to have its files somewhere, and start nothing.
create table loads (
  model text not null references models (name) on delete cascade,
  purpose text not null check (purpose in ('serve', 'stage')),
  slot integer not null check (slot >= 0),
  revision text not null,
  -- The operation that shows it, if somebody asked for one.
  operation_id text,
  state text not null check (state in ('waiting', 'installing', 'starting', 'ready', 'failed')),
  -- Of a try; goes to the worker with the command.
  epoch bigint not null default 0,
  -- How the worker knows this try; progress and result name it.
  op_id text,
  node_id text references nodes (id) on delete set null,
  replica_id text,
  -- The install of the backend on that node that it waits for.
  install_id text,
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
  wished_at timestamptz not null default now(),
  row_version bigint not null default 0,
  primary key (model, purpose, slot),
  constraint load_is_one_case check (case state
    when 'waiting' then replica_id is null and install_id is null and next_at is not null
    when 'installing' then node_id is not null and install_id is not null and replica_id is null and next_at is not null
    when 'starting' then node_id is not null and op_id is not null and (replica_id is not null or purpose = 'stage') and next_at is not null
    when 'ready' then (replica_id is not null or purpose = 'stage') and next_at is null and failure is null
    -- Without a next time: a cause that can't heal, or nobody asks for it.
    when 'failed' then failure is not null and failed_at is not null and replica_id is null and install_id is null
  end),
  constraint lease_is_whole check ((holder is null) = (lease_until is null))
);
create index loads_due on loads (next_at) where next_at is not null;
create index loads_by_op on loads (op_id) where op_id is not null;
create index loads_by_replica on loads (replica_id) where replica_id is not null;

create table replicas (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  -- No reference: a process may live a little longer than its model.
  model text not null,
  revision text not null,
  -- Null: another replica has its place; it is to go.
  slot integer check (slot >= 0),
  node_id text not null references nodes (id) on delete cascade,
  backend text not null,
  backend_digest text,
  -- What it was started with.
  config jsonb not null,
  state text not null check (state in ('starting', 'ready', 'draining', 'exited')),
  op_id text,
  -- The event or heartbeat of the worker that was last heeded.
  incarnation text,
  seq bigint,
  created_at timestamptz not null default now(),
  ready_at timestamptz,
  drain_since timestamptz,
  -- When its worker was last told to end it.
  told_at timestamptz,
  exited_at timestamptz,
  -- {exit_code?, signal?, last_lines?, expected?}
  exit jsonb,
  constraint replica_is_one_case check (case state
    when 'starting' then ready_at is null and drain_since is null and exited_at is null
    when 'ready' then ready_at is not null and drain_since is null and exited_at is null
    when 'draining' then drain_since is not null and exited_at is null
    else exited_at is not null
  end)
);
-- W30: at most one live process per slot, and per node and slot.
create unique index one_live_replica_per_slot on replicas (model, slot) where slot is not null and state <> 'exited';
create index replicas_live on replicas (model) where state <> 'exited';
create index replicas_by_node on replicas (node_id) where state <> 'exited';
create index replicas_exited on replicas (exited_at) where state = 'exited';

-- Files of deleted models that nodes still have, or may have. A row goes when its node confirmed, or is removed.
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

-- Operations about models are one job each; rows of their nodes are shown as they are stored here.
alter table operations
  add column outcome text check (outcome in ('succeeded', 'failed', 'cancelled')),
  add column message text not null default '',
  add column current_bytes bigint not null default 0 check (current_bytes >= 0),
  add column total_bytes bigint not null default 0 check (total_bytes >= 0),
  add column cancel_asked boolean not null default false;
alter table operation_nodes
  add column shown text check (shown in ('queued', 'downloading', 'running_on_worker', 'error')),
  add column phase text check (phase in ('resolving', 'downloading', 'extracting', 'starting')),
  add column file_name text not null default '',
  add column next_retry_at timestamptz;
alter table operation_nodes drop constraint operation_node_is_one_case;
alter table operation_nodes add constraint operation_node_is_one_case check (case status
  when 'open' then (generation is null) <> (shown is null) and not dead and finished_at is null
    and (shown = 'error' or (error is null and error_code is null))
  when 'error' then error is not null and error_code is not null and finished_at is not null
  else error is null and error_code is null and not dead and finished_at is not null
end);

-- What went through each controller, added up over all of them.
create table stats_buckets (
  at timestamptz not null,
  model text not null,
  node_id text not null,
  requests bigint not null default 0,
  errors bigint not null default 0,
  prompt_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  in_flight integer not null default 0,
  duration_ms bigint not null default 0,
  primary key (at, model, node_id)
);

create function model_changed() returns trigger language plpgsql as $$
begin
  perform record_change('model', case when tg_op = 'DELETE' then old.name else new.name end, tg_op = 'DELETE');
  return null;
end
$$;
create trigger model_added after insert or delete on models for each row execute function model_changed();
-- That somebody asked it is no change of it: used_at is written every ten seconds.
create trigger model_changed after update on models for each row
  when (to_jsonb(old) - 'used_at' is distinct from to_jsonb(new) - 'used_at') execute function model_changed();

-- A load is shown with its model. What moves no state (bytes, leases) is no change: ticks tell of it. Nor is that a model
-- which found no node is looked at again: that is so at every change of any node.
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

-- One that has exited is shown with neither model nor node: that it is forgotten changes nothing about them.
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
create trigger replica_changed after update on replicas for each row
  when (old.state is distinct from new.state or old.slot is distinct from new.slot) execute function replica_changed();

-- What was to run, or ran, on a node that is removed is placed anew. Its replicas go with it.
create function loads_of_removed_node() returns trigger language plpgsql as $$
begin
  update loads set state = 'waiting', node_id = null, replica_id = null, install_id = null, op_id = null, next_at = now(), sign_at = null,
    holder = null, lease_until = null, row_version = row_version + 1
  where node_id = old.id and state in ('installing', 'starting', 'ready');
  return old;
end
$$;
create trigger loads_of_removed_node before delete on nodes for each row execute function loads_of_removed_node();

-- As before for wishes about backends. Rows of operations about models end too; whether the operation does is for those who
-- follow it to say: there may be more to it than its nodes.
create or replace function node_removed() returns trigger language plpgsql as $$
declare
  told text[];
begin
  insert into intent_events (node_id, backend, generation, epoch, type, detail)
  select node_id, backend, generation, epoch, 'cancelled', '{"reason": "node removed"}' from intents
  where node_id = old.id and state in ('waiting', 'sending', 'working') order by generation;
  with closed as (
    update operation_nodes set status = 'cancelled', message = 'node removed', finished_at = now(), shown = null, phase = null,
      error = null, error_code = null, next_retry_at = null
    where node_id = old.id and status = 'open' returning operation_id, generation
  ), counted as (
    update operations o set open_nodes = o.open_nodes - 1, finished_at = case when o.open_nodes = 1 then now() end
    from closed c where o.id = c.operation_id and c.generation is not null returning o.id
  )
  select array_agg(id order by id) into told
  from (select id from counted union select operation_id from closed where generation is null) e (id);
  perform record_change('operation', id, false) from unnest(told) id;
  perform record_change('backend', e.name, false)
  from (select distinct b ->> 'name' as name from jsonb_array_elements(old.inventory) b order by 1) e where e.name is not null;
  return old;
end
$$;
