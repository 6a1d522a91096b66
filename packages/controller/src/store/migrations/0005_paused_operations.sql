-- Operations that are paused or dismissed. `is_paused` of an intent or a load is derived: every open operation that waits for it is
-- paused (store/paused-work.ts).

alter table operations
  add column paused_at timestamptz,
  add column dismissed_at timestamptz,
  add constraint paused_is_open check (paused_at is null or finished_at is null),
  add constraint dismissed_is_finished check (dismissed_at is null or finished_at is not null),
  add constraint operation_can_be_paused check (paused_at is null or backend is not null or kind = 'model.install');

-- For the question whether a backend or a model has a paused operation, which is rarely so.
create index operations_paused on operations (backend, model) where paused_at is not null;

alter table intents
  add column is_paused boolean not null default false,
  add constraint paused_intent_is_open check (not is_paused or finished_at is null);

alter table loads
  add column is_paused boolean not null default false,
  add constraint only_stages_are_paused check (not is_paused or purpose = 'stage');

-- An operation that ends is no longer paused; one that is reopened is no longer dismissed.
create or replace function update_finished_at(wanted text) returns void language plpgsql as $$
begin
  perform from operations where id = wanted for no key update;
  update operations o set finished_at = case when o.finished_at is null then now() end, paused_at = null, dismissed_at = null
  where o.id = wanted and o.backend is not null
    and (o.finished_at is null) <> exists (select from operation_nodes n where n.operation_id = o.id and n.finished_at is null);
end
$$;
