create sequence change_seq as bigint increment by 1 start with 1;

create table api_keys (
  id text not null,
  name text not null,
  scope text not null,
  secret_sha256 text not null,
  created_at timestamp with time zone not null default now(),
  last_used_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_secret_sha256_key UNIQUE (secret_sha256),
  constraint api_keys_scope_check CHECK ((scope = ANY (ARRAY['inference'::text, 'read'::text, 'admin'::text]))),
  constraint api_keys_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table browser_sessions (
  secret_sha256 text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  constraint browser_sessions_pkey PRIMARY KEY (secret_sha256),
  constraint browser_sessions_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table change_floor (
  one boolean not null default true,
  seq bigint not null,
  constraint change_floor_pkey PRIMARY KEY (one),
  constraint change_floor_one_check CHECK (one)
);

create table changes (
  kind text not null,
  id text not null,
  seq bigint not null,
  deleted boolean not null,
  at timestamp with time zone not null,
  constraint changes_pkey PRIMARY KEY (kind, id)
);

create table controllers (
  id text not null,
  url text not null,
  version text not null,
  started_at timestamp with time zone not null default now(),
  last_seen_at timestamp with time zone not null default now(),
  constraint controllers_pkey PRIMARY KEY (id)
);

create table galleries (
  name text not null,
  url text not null,
  kind text not null,
  origin text not null,
  created_at timestamp with time zone not null default now(),
  constraint galleries_pkey PRIMARY KEY (name),
  constraint galleries_kind_check CHECK ((kind = ANY (ARRAY['backend'::text, 'model'::text]))),
  constraint galleries_name_check CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'::text)),
  constraint galleries_origin_check CHECK ((origin = ANY (ARRAY['setting'::text, 'api'::text]))),
  constraint galleries_url_check CHECK (((length(url) >= 1) AND (length(url) <= 2048)))
);

create table join_tokens (
  secret_sha256 text not null,
  created_at timestamp with time zone not null default now(),
  constraint join_tokens_pkey PRIMARY KEY (secret_sha256),
  constraint join_tokens_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table login_links (
  secret_sha256 text not null,
  expires_at timestamp with time zone not null,
  constraint login_links_pkey PRIMARY KEY (secret_sha256),
  constraint login_links_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table node_pulses (
  node_id text not null,
  liveness text not null default 'new'::text,
  answering text not null default 'yes'::text,
  last_seen_at timestamp with time zone,
  incarnation text,
  seq bigint,
  resources jsonb not null,
  in_flight integer not null default 0,
  probed_at timestamp with time zone,
  constraint node_pulses_pkey PRIMARY KEY (node_id),
  constraint node_pulses_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE,
  constraint node_pulses_answering_check CHECK ((answering = ANY (ARRAY['yes'::text, 'unproven'::text, 'no'::text]))),
  constraint node_pulses_in_flight_check CHECK ((in_flight >= 0)),
  constraint node_pulses_liveness_check CHECK ((liveness = ANY (ARRAY['new'::text, 'present'::text, 'silent'::text, 'gone'::text, 'left'::text]))),
  constraint present_was_seen CHECK (((liveness <> 'present'::text) OR (last_seen_at IS NOT NULL)))
) with (fillfactor=60);

create table nodes (
  id text not null,
  public_key text not null,
  name text not null,
  node_type text not null,
  version text not null,
  features text[] not null,
  os text not null,
  arch text not null,
  capability text not null,
  gateway_url text not null,
  reported_labels jsonb not null,
  label_overrides jsonb not null default '{}'::jsonb,
  vram_budget text,
  draining boolean not null default false,
  incarnation text not null,
  inventory jsonb not null default '[]'::jsonb,
  created_at timestamp with time zone not null default now(),
  approved_at timestamp with time zone,
  approved_by text,
  registration_signed_at timestamp with time zone,
  constraint nodes_pkey PRIMARY KEY (id),
  constraint nodes_public_key_key UNIQUE (public_key),
  constraint approval_is_whole CHECK (((approved_at IS NULL) = (approved_by IS NULL))),
  constraint nodes_id_check CHECK ((id ~ '^[a-z0-9-]{1,63}$'::text)),
  constraint nodes_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
  constraint nodes_node_type_check CHECK ((node_type = ANY (ARRAY['backend'::text, 'agent'::text]))),
  constraint nodes_public_key_check CHECK ((public_key ~ '^U[A-Z2-7]{55}$'::text))
);

create table schema_migrations (
  version integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now(),
  constraint schema_migrations_pkey PRIMARY KEY (version)
);

CREATE INDEX changes_by_seq ON public.changes USING btree (seq);

CREATE OR REPLACE FUNCTION public.node_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('node', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_pulse_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('node', new.node_id, false);
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.record_change(change_kind text, change_id text, is_deleted boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  loop
    update changes set seq = nextval('change_seq'), deleted = is_deleted, at = clock_timestamp()
    where kind = change_kind and id = change_id;
    exit when found;
    begin
      insert into changes (kind, id, seq, deleted, at)
      values (change_kind, change_id, nextval('change_seq'), is_deleted, clock_timestamp());
      exit;
    exception when unique_violation then
      null; -- somebody else inserted it meanwhile: update theirs
    end;
  end loop;
  perform pg_notify('muster_changes', '');
end
$function$;

CREATE TRIGGER node_pulse_changed AFTER UPDATE ON public.node_pulses FOR EACH ROW WHEN (((old.liveness <> new.liveness) OR (old.answering <> new.answering))) EXECUTE FUNCTION node_pulse_changed();

CREATE TRIGGER node_changed AFTER INSERT OR DELETE OR UPDATE ON public.nodes FOR EACH ROW EXECUTE FUNCTION node_changed();
