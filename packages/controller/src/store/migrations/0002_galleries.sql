-- Where backends and models are offered. The built-in gallery is not here: it comes with the program.
create table galleries (
  name text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
  url text not null check (length(url) between 1 and 2048),
  kind text not null check (kind in ('backend', 'model')),
  -- Who put it there: the command line of a controller, or an administrator.
  origin text not null check (origin in ('setting', 'api')),
  created_at timestamptz not null default now()
);
