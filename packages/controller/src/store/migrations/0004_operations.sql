-- What administrators asked for (operations), the durable wish per node and backend behind it (intents), and the
-- history of both. protocol/states/intent.ts and operation.ts own the meaning.

-- As before, but a session that has just rung the bell does not ring it again: PostgreSQL lets one transaction at a time
-- commit with a notification, its write to disk included, so a bell per change held hundreds of commits a second in one
-- line. The first change rings; readers that were rung look again by themselves for a while (events/feed.ts).
create or replace function record_change(change_kind text, change_id text, is_deleted boolean) returns void language plpgsql as $$
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
      null; -- somebody else inserted it meanwhile: update theirs
    end;
  end loop;
  if now_ms - coalesce(nullif(current_setting('muster.rang_at', true), ''), '0')::bigint > 250 then
    perform set_config('muster.rang_at', now_ms::text, false);
    perform pg_notify('muster_changes', '');
  end if;
end
$$;

create table operations (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  kind text not null check (kind in ('backend.install', 'backend.upgrade', 'backend.delete', 'model.install', 'model.load', 'model.unload', 'model.delete')),
  backend text,
  model text,
  requested_by text not null,
  options jsonb not null default '{}',
  -- How many of its nodes are not settled. A counter, because two statements that settle the last two nodes at once
  -- do not see each other's rows, but do see each other's counter.
  open_nodes integer not null check (open_nodes >= 0),
  -- The highest that was ever shown: a bar never goes back.
  progress real not null default 0 check (progress between 0 and 100),
  file_name text not null default '',
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint operation_is_about_one_thing check ((backend is null) <> (model is null)),
  constraint finished_when_all_are_settled check ((finished_at is null) = (open_nodes > 0))
);
create index operations_active on operations (created_at desc) where finished_at is null;
create index operations_finished on operations (finished_at desc) where finished_at is not null;

-- Every wish draws its generation here, so it names one wish of one row and is never used again.
create sequence intent_generation;

create table intents (
  node_id text not null references nodes (id) on delete cascade,
  backend text not null check (backend ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$'),
  kind text not null check (kind in ('install', 'upgrade', 'delete')),
  generation bigint not null unique,
  -- One try. It grows with every claim and is carried to the worker: what an older try says ends nothing.
  epoch bigint not null default 0,
  op_id text not null,
  -- All that a try needs, as it was when the wish was made.
  plan jsonb not null,
  attempts integer not null default 0 check (attempts >= 0),
  last_failure jsonb,
  cancel_asked boolean not null default false,
  state text not null check (state in ('waiting', 'sending', 'working', 'applied', 'failed', 'dead', 'cancelled')),
  next_at timestamptz,
  -- Its node is away, so it need not be looked at however due it is: thousands of wishes that wait for absent nodes cost
  -- those of the others nothing. Set and cleared when the node turns; a sweep mends what fell between (intents.park).
  is_parked boolean not null default false,
  was_sent boolean not null default false,
  wait text check (wait in ('result', 'reply', 'another_try')),
  holder text,
  lease_until timestamptz,
  accepted_at timestamptz,
  sign_at timestamptz,
  is_overdue boolean not null default false,
  finished_at timestamptz,
  note text not null default '',
  -- What the worker said last of its bytes; of this try only.
  phase text check (phase in ('resolving', 'downloading', 'extracting', 'starting')),
  file_name text not null default '',
  current_bytes bigint not null default 0 check (current_bytes >= 0),
  total_bytes bigint not null default 0 check (total_bytes >= 0),
  percentage real not null default 0 check (percentage between 0 and 100),
  progress_seq bigint,
  -- When the worker was last asked how it goes.
  asked_at timestamptz,
  wished_at timestamptz not null default now(),
  -- Counts every write that a decision was based on; the next one names the revision it has seen.
  revision bigint not null default 0,
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
create index intents_due on intents (next_at, generation) where next_at is not null and not is_parked;
create index intents_leased on intents (lease_until) where lease_until is not null;
create index intents_open_by_node on intents (node_id, generation) where state in ('waiting', 'sending', 'working');
create index intents_working on intents (accepted_at) where state = 'working';

-- An operation's view of one node. While it is `open` the intent with its generation says how it is.
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
  primary key (operation_id, node_id),
  constraint operation_node_is_one_case check (case status
    when 'open' then generation is not null and error is null and error_code is null and not dead and finished_at is null
    when 'error' then error is not null and error_code is not null and finished_at is not null
    else error is null and error_code is null and not dead and finished_at is not null end)
);
create index operation_nodes_open on operation_nodes (generation) where status = 'open';
create index operation_nodes_open_by_node on operation_nodes (node_id) where status = 'open';

-- What happened, in the transaction in which it happened. Only ever added to; old rows go with the history.
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
  raise exception 'intent_events is only ever added to';
end
$$;
create trigger intent_events_are_history before update on intent_events
  for each row execute function intent_events_are_history();

create table idempotency_keys (
  key text not null,
  caller text not null,
  request_sha256 text not null,
  status integer not null,
  response jsonb not null,
  created_at timestamptz not null default now(),
  primary key (caller, key)
);

-- Work that one controller at a time does for all.
create table duties (
  name text primary key,
  holder text,
  lease_until timestamptz,
  done_at timestamptz,
  report jsonb not null default '{}'
);

-- What galleries and registries offered when they were last asked, for the backends that are installed somewhere.
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

-- ── Nodes and their rows ─────────────────────────────────────────────────────────────────────
-- Of two inventories of one process the one with the higher number is newer; of two processes the one that speaks now.
alter table nodes
  add column inventory_incarnation text,
  add column inventory_seq bigint,
  add column inventory_at timestamptz;

-- Changes are recorded in one order everywhere, nodes before operations before backends and each by id, so that
-- statements which touch many of them do not wait for each other in a circle.
create function operations_of_nodes_changed(node_ids text[]) returns void language sql as $$
  select record_change('operation', o.operation_id, false) from (
    select distinct operation_id from operation_nodes where node_id = any(node_ids) and status = 'open' order by operation_id
  ) o
$$;

-- Whether commands are sent to a node: it is healthy, or a try is how to find out whether it answers again.
create function node_may_be_tried(wanted text) returns boolean stable language sql as $$
  select coalesce((
    select n.approved_at is not null and n.node_type <> 'agent' and not n.draining and p.liveness = 'present' and p.answering <> 'unproven'
    from nodes n join node_pulses p on p.node_id = n.id where n.id = wanted
  ), false)
$$;

-- A node that is back is tried at once, one that is away is not looked at, and what operations show follows how it is.
create function nodes_turned(node_ids text[], returned text[]) returns void language plpgsql as $$
begin
  update intents i set is_parked = not node_may_be_tried(i.node_id),
    next_at = case when i.node_id = any(returned) then least(i.next_at, now()) else i.next_at end, revision = i.revision + 1
  where i.node_id = any(node_ids) and i.state = 'waiting';
  perform operations_of_nodes_changed(node_ids);
end
$$;

create function node_pulses_turned() returns trigger language plpgsql as $$
declare
  turned text[];
  returned text[];
begin
  select array_agg(n.node_id order by n.node_id),
    array_agg(n.node_id order by n.node_id) filter (where n.liveness = 'present' and n.answering = 'yes')
  into turned, returned
  from new_pulses n join old_pulses o on o.node_id = n.node_id
  where n.liveness <> o.liveness or n.answering <> o.answering;
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

-- Which inventory it was is no news; what it lists is.
create or replace trigger node_changed after insert or delete on nodes for each row execute function node_changed();
create trigger node_edited after update on nodes for each row
  when ((to_jsonb(old) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[])
    is distinct from (to_jsonb(new) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[]))
  execute function node_changed();

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

-- A node that is removed takes its wishes with it; the operations that waited for it are told so.
create function node_removed() returns trigger language plpgsql as $$
declare
  told text[];
begin
  insert into intent_events (node_id, backend, generation, epoch, type, detail)
  select node_id, backend, generation, epoch, 'cancelled', '{"reason": "node removed"}' from intents
  where node_id = old.id and state in ('waiting', 'sending', 'working') order by generation;
  with closed as (
    update operation_nodes set status = 'cancelled', message = 'node removed', finished_at = now()
    where node_id = old.id and status = 'open' returning operation_id
  ), counted as (
    update operations o set open_nodes = o.open_nodes - 1, finished_at = case when o.open_nodes = 1 then now() end
    from closed c where o.id = c.operation_id returning o.id
  )
  select array_agg(id order by id) into told from counted;
  perform record_change('operation', id, false) from unnest(told) id;
  perform record_change('backend', e.name, false)
  from (select distinct b ->> 'name' as name from jsonb_array_elements(old.inventory) b order by 1) e where e.name is not null;
  return old;
end
$$;
create trigger node_removed before delete on nodes for each row execute function node_removed();
