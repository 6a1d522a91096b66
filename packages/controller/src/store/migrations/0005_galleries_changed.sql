-- Workers hear of galleries in their sessions: whoever waits there is woken when they change.
create function galleries_changed() returns trigger language plpgsql as $$
begin
  perform record_change('settings', 'galleries', false);
  return null;
end
$$;
create trigger galleries_added after insert or delete on galleries
  for each row execute function galleries_changed();
-- Every start of a controller writes those of its command line again; that alone is no news.
create trigger galleries_updated after update on galleries
  for each row when (old.url <> new.url or old.kind <> new.kind)
  execute function galleries_changed();
