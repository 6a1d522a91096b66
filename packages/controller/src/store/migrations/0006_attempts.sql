-- What a worker says of its bytes names the try (the epoch) it speaks of. An attempt may take several tries, when nobody
-- knows what became of a command; what was said before the first of them is about an attempt that failed.
alter table intents add column tried_since bigint not null default 0;
