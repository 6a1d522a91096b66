-- Settings of sites: a limit of nodes, settings that administrators change while controllers run, and scheduling rules of a file.

alter table nodes add column max_replicas_per_model integer
  constraint nodes_max_replicas_per_model_check check (max_replicas_per_model between 1 and 65536);

-- Settings of the command line, environment or file of a live controller. They cannot be changed by the API.
alter table controllers add column pinned_settings jsonb not null default '{}';

-- Values as people write them; each controller parses them. A missing row is the default of each controller.
create table runtime_settings (
  flag text primary key check (flag ~ '^[a-z][a-z0-9-]{0,62}$'),
  value text not null check (length(value) <= 1024)
);

-- History of runtime_settings, written in the same transaction. Null: the default.
create table setting_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  flag text not null,
  changed_by text not null,
  value_before text,
  value_after text,
  constraint setting_has_changed check (value_before is distinct from value_after)
);

create function runtime_setting_changed() returns trigger language plpgsql as $$
begin
  perform record_change('settings', 'runtime', false);
  return null;
end
$$;
create trigger runtime_setting_changed after insert or update or delete on runtime_settings
  for each row execute function runtime_setting_changed();

-- The content of the file of --model-scheduling that was applied last.
create table scheduling_file (
  one boolean primary key default true check (one),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  applied_at timestamptz not null default clock_timestamp()
);

-- Its rules. A model that is created without scheduling gets the rule of its name.
create table scheduling_rules (
  model text primary key,
  scheduling jsonb not null,
  -- Written to a model, or taken by a model at its creation. From then on the scheduling is its administrator's.
  is_applied boolean not null default false
);
