-- A worker that answers at the end only remembers nothing: what it was at when its process ended is gone, and the request
-- that waits for its reply waits in vain. So with a new process that work is due again, and with its return whatever was
-- to be looked at later.
create or replace function node_pulses_turned() returns trigger language plpgsql as $$
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
    update intents set next_at = now(), revision = revision + 1
    where node_id = any(returned) and wait = 'another_try' and next_at > now();
  end if;
  if restarted is not null then
    update intents set wait = 'another_try', next_at = now(), holder = null, lease_until = null, revision = revision + 1
    where node_id = any(restarted) and wait in ('reply', 'another_try');
  end if;
  if turned is not null then perform nodes_turned(turned, coalesce(returned, '{}')); end if;
  return null;
end
$$;
