-- An administrator at the web page makes join tokens that go by themselves; the one that controllers are given, or made at
-- their first start, has no end.
alter table join_tokens add column expires_at timestamptz;
