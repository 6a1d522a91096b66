-- Which registration of a node is the newest: when its worker signed it. A request may wait in the socket of a
-- controller that hangs, or be sent again by somebody who saw it; what was signed before the newest of another
-- process must not take the node from the one that lives. Null: registered before this was kept.
alter table nodes add column registration_signed_at timestamptz;
