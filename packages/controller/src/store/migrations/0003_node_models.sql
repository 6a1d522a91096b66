-- Models on one node alone: unloads by an administrator, and prefetches.

-- A model that an administrator unloaded on one node. No replica starts there until the model is loaded there or its scheduling
-- changes.
create table node_unloads (
  model text not null references models (name) on delete cascade,
  node_id text not null references nodes (id) on delete cascade,
  requested_by text not null,
  created_at timestamptz not null default now(),
  primary key (model, node_id)
);
create index node_unloads_by_node on node_unloads (node_id);

-- Shown with the model and with the node; in the same order as replica_changed, which avoids deadlocks.
create function node_unload_changed() returns trigger language plpgsql as $$
declare
  about node_unloads := case when tg_op = 'DELETE' then old else new end;
begin
  if exists (select from models m where m.name = about.model) then perform record_change('model', about.model, false); end if;
  perform record_change('node', n.id, false) from nodes n where n.id = about.node_id;
  return null;
end
$$;
create trigger node_unload_added after insert or delete on node_unloads for each row execute function node_unload_changed();

-- A prefetch stages the files of a model on nodes; each node has a load of purpose `stage` that is pinned to it.
alter table operations drop constraint operations_kind_check;
alter table operations add constraint operations_kind_check check (kind in ('backend.install', 'backend.upgrade', 'backend.delete',
  'model.install', 'model.load', 'model.unload', 'model.delete', 'model.prefetch'));
create unique index one_prefetch_per_node on loads (model, pinned_node_id) where purpose = 'stage' and pinned_node_id is not null;

-- The models that its worker was started with --prefetch-models for.
alter table nodes add column prefetch_models text[] not null default '{}';

-- The revision that was last prefetched for a worker's setting, so that it happens once, whichever controller is first.
create table node_prefetches (
  node_id text not null references nodes (id) on delete cascade,
  model text not null references models (name) on delete cascade,
  revision text not null,
  primary key (node_id, model)
);
