-- A fleet that serves: replicas that take each other's place without a gap, memory that is booked, upgrades in rings.

-- A load may have to be on one node: it takes the place of a replica there. `needs_check`: what comes up is asked something
-- before it gets requests, because others serve as long as it does not.
alter table loads
  add column pinned_node_id text references nodes (id) on delete set null,
  add column needs_check boolean not null default false,
  -- What was done otherwise than usual, for whoever follows it: that the old one had to go first, say.
  add column note text not null default '';

alter table replicas
  -- Which of the model's processes on its node it is, as its worker knows it; its slot may change, this never does.
  add column place integer not null default 0 check (place >= 0),
  -- Whether it was asked something yet. Only `passed` gets requests.
  add column checked text not null default 'passed' check (checked in ('due', 'passed', 'failed')),
  add column check_holder text,
  add column check_until timestamptz,
  -- Since when it is asked without a pause: for so long it could not be reached, if it could not.
  add column check_since timestamptz,
  add constraint check_lease_is_whole check ((check_holder is null) = (check_until is null));
-- Those that live and share a number, from before there was one.
update replicas r set place = n.place
from (select id, row_number() over (partition by node_id, model order by created_at, id) - 1 as place from replicas where state <> 'exited') n
where n.id = r.id;
-- I11, W30: at most one live process per node, model and place.
create unique index one_live_replica_per_place on replicas (node_id, model, place) where state <> 'exited';
create index replicas_to_check on replicas (id) where checked = 'due' and state = 'ready';

-- That it may be asked, or may not any more, is a change of where requests go; and so is that its worker, begun anew, names it.
drop trigger replica_changed on replicas;
create trigger replica_changed after update on replicas for each row
  when (old.state is distinct from new.state or old.slot is distinct from new.slot or old.checked is distinct from new.checked
    or old.incarnation is distinct from new.incarnation)
  execute function replica_changed();

-- When the memory that a node last reported was looked at, as far as that is known; never later.
alter table node_pulses add column reported_at timestamptz;

-- Up to which change each controller routes by what is so.
alter table controllers add column routes_seq bigint not null default 0;

-- Since when all its replicas were busy, and since when fewer would do.
alter table models
  add column busy_since timestamptz,
  add column slack_since timestamptz;
drop trigger model_changed on models;
create trigger model_changed after update on models for each row
  when (to_jsonb(old) - '{used_at,busy_since,slack_since}'::text[] is distinct from to_jsonb(new) - '{used_at,busy_since,slack_since}'::text[])
  execute function model_changed();

-- A wish whose ring has not begun is not tried, however due it is; so it is not among those that are looked at.
alter table intents add column is_held boolean not null default false;
drop index intents_due;
create index intents_due on intents (next_at, generation) where next_at is not null and not is_parked and not is_held;

-- An upgrade that goes from ring to ring. It is told through its operation; a row goes with that. Nobody holds one: a look at
-- it reads, decides and writes in one transaction, and whoever looks next comes to the same.
create table rollouts (
  operation_id text primary key references operations (id) on delete cascade,
  backend text not null,
  -- {canary, maxParallel, minHealthyMs}
  spec jsonb not null,
  state text not null check (state in ('running', 'returning', 'succeeded', 'failed', 'cancelled')),
  -- Which ring is under way; the last one when it is over.
  ring integer not null default 1 check (ring >= 1),
  rings integer not null check (rings >= 1),
  -- Since when all that is under way is well.
  well_since timestamptz,
  -- How many replicas are left to be moved, and since when it is that many.
  waits_for integer,
  waits_since timestamptz,
  -- Why it goes back, or went.
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

-- `proving`: the generation of the wish that came true on that node, while its replicas are moved and watched. `previous`: what
-- the node goes back to when the rollout fails (a plan); null when nobody knows.
alter table operation_nodes
  add column proving bigint,
  add column previous jsonb;
create index operation_nodes_proving on operation_nodes (proving) where proving is not null;

-- As before; a node that is being proven is counted too, as every node of an operation about a backend is.
create or replace function node_removed() returns trigger language plpgsql as $$
declare
  told text[];
begin
  insert into intent_events (node_id, backend, generation, epoch, type, detail)
  select node_id, backend, generation, epoch, 'cancelled', '{"reason": "node removed"}' from intents
  where node_id = old.id and state in ('waiting', 'sending', 'working') order by generation;
  with closed as (
    update operation_nodes set status = 'cancelled', message = 'node removed', finished_at = now(), shown = null, phase = null,
      proving = null, error = null, error_code = null, next_retry_at = null
    where node_id = old.id and status = 'open' returning operation_id
  ), counted as (
    update operations o set open_nodes = o.open_nodes - 1, finished_at = case when o.open_nodes = 1 then now() end
    from closed c where o.id = c.operation_id and o.backend is not null returning o.id
  )
  select array_agg(id order by id) into told from (select id from counted union select operation_id from closed) e (id);
  perform record_change('operation', id, false) from unnest(told) id;
  perform record_change('backend', e.name, false)
  from (select distinct b ->> 'name' as name from jsonb_array_elements(old.inventory) b order by 1) e where e.name is not null;
  return old;
end
$$;
