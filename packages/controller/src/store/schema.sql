create sequence change_seq as bigint increment by 1 start with 1;

create sequence intent_generation as bigint increment by 1 start with 1;

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

create table available_backends (
  backend text not null,
  concrete text not null,
  platform text not null,
  uri text not null,
  digest text not null,
  version text not null,
  checked_at timestamp with time zone not null default now(),
  constraint available_backends_pkey PRIMARY KEY (backend, concrete, platform)
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
  routes_seq bigint not null default 0,
  pinned_settings jsonb not null default '{}'::jsonb,
  constraint controllers_pkey PRIMARY KEY (id)
);

create table duties (
  name text not null,
  holder text,
  lease_until timestamp with time zone,
  done_at timestamp with time zone,
  report jsonb not null default '{}'::jsonb,
  constraint duties_pkey PRIMARY KEY (name)
);

create table file_contents (
  digest text not null,
  size_bytes bigint,
  facts jsonb,
  is_verified boolean not null,
  updated_at timestamp with time zone not null default now(),
  constraint file_contents_pkey PRIMARY KEY (digest),
  constraint file_contents_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
  constraint file_contents_facts_check CHECK ((jsonb_typeof(facts) = 'object'::text)),
  constraint file_contents_size_bytes_check CHECK ((size_bytes >= 0))
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

create table idempotency_keys (
  key text not null,
  caller text not null,
  request_sha256 text not null,
  status integer not null,
  response jsonb not null,
  created_at timestamp with time zone not null default now(),
  constraint idempotency_keys_pkey PRIMARY KEY (caller, key)
);

create table intent_events (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default clock_timestamp(),
  node_id text not null,
  backend text not null,
  generation bigint not null,
  epoch bigint not null,
  type text not null,
  detail jsonb not null default '{}'::jsonb,
  constraint intent_events_pkey PRIMARY KEY (id)
);

create table intents (
  node_id text not null,
  backend text not null,
  kind text not null,
  generation bigint not null,
  epoch bigint not null default 0,
  op_id text not null,
  replaced text[] not null default '{}'::text[],
  plan jsonb not null,
  attempts integer not null default 0,
  last_failure jsonb,
  cancel_requested boolean not null default false,
  state text not null,
  next_at timestamp with time zone,
  is_parked boolean not null default false,
  awaits_ring boolean not null default false,
  was_sent boolean not null default false,
  wait text,
  holder text,
  lease_until timestamp with time zone,
  accepted_at timestamp with time zone,
  sign_at timestamp with time zone,
  is_overdue boolean not null default false,
  finished_at timestamp with time zone,
  note text not null default ''::text,
  phase text,
  file_name text not null default ''::text,
  current_bytes bigint not null default 0,
  total_bytes bigint not null default 0,
  percentage real not null default 0,
  progress_seq bigint,
  tried_since bigint not null default 0,
  polled_at timestamp with time zone,
  requested_at timestamp with time zone not null default now(),
  row_version bigint not null default 0,
  is_paused boolean not null default false,
  constraint intents_pkey PRIMARY KEY (node_id, backend),
  constraint intents_generation_key UNIQUE (generation),
  constraint intents_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE,
  constraint intent_is_one_case CHECK (
CASE state
    WHEN 'waiting'::text THEN ((next_at IS NOT NULL) AND (wait IS NULL) AND (holder IS NULL) AND (lease_until IS NULL) AND (accepted_at IS NULL) AND (finished_at IS NULL))
    WHEN 'sending'::text THEN ((next_at IS NULL) AND (wait IS NULL) AND (holder IS NOT NULL) AND (lease_until IS NOT NULL) AND (accepted_at IS NULL) AND (finished_at IS NULL))
    WHEN 'working'::text THEN ((accepted_at IS NOT NULL) AND (sign_at IS NOT NULL) AND (finished_at IS NULL) AND
    CASE wait
        WHEN 'result'::text THEN ((holder IS NULL) AND (lease_until IS NULL) AND (next_at IS NULL))
        WHEN 'reply'::text THEN ((holder IS NOT NULL) AND (lease_until IS NOT NULL) AND (next_at IS NULL))
        WHEN 'another_try'::text THEN ((holder IS NULL) AND (lease_until IS NULL) AND (next_at IS NOT NULL))
        ELSE false
    END)
    WHEN 'failed'::text THEN ((finished_at IS NOT NULL) AND (last_failure IS NOT NULL) AND (next_at IS NULL) AND (wait IS NULL) AND (holder IS NULL))
    WHEN 'dead'::text THEN ((finished_at IS NOT NULL) AND (last_failure IS NOT NULL) AND (next_at IS NULL) AND (wait IS NULL) AND (holder IS NULL))
    ELSE ((finished_at IS NOT NULL) AND (next_at IS NULL) AND (wait IS NULL) AND (holder IS NULL))
END),
  constraint intents_attempts_check CHECK ((attempts >= 0)),
  constraint intents_backend_check CHECK ((backend ~ '^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$'::text)),
  constraint intents_current_bytes_check CHECK ((current_bytes >= 0)),
  constraint intents_kind_check CHECK ((kind = ANY (ARRAY['install'::text, 'upgrade'::text, 'delete'::text]))),
  constraint intents_percentage_check CHECK (((percentage >= (0)::double precision) AND (percentage <= (100)::double precision))),
  constraint intents_phase_check CHECK ((phase = ANY (ARRAY['resolving'::text, 'downloading'::text, 'extracting'::text, 'starting'::text]))),
  constraint intents_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'sending'::text, 'working'::text, 'applied'::text, 'failed'::text, 'dead'::text, 'cancelled'::text]))),
  constraint intents_total_bytes_check CHECK ((total_bytes >= 0)),
  constraint intents_wait_check CHECK ((wait = ANY (ARRAY['result'::text, 'reply'::text, 'another_try'::text]))),
  constraint paused_intent_is_open CHECK (((NOT is_paused) OR (finished_at IS NULL)))
);

create table join_tokens (
  secret_sha256 text not null,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone,
  constraint join_tokens_pkey PRIMARY KEY (secret_sha256),
  constraint join_tokens_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table loads (
  model text not null,
  purpose text not null,
  ordinal integer not null,
  revision text not null,
  operation_id text,
  state text not null,
  epoch bigint not null default 0,
  op_id text,
  node_id text,
  pinned_node_id text,
  replica_id text,
  install_id text,
  needs_check boolean not null default false,
  attempts integer not null default 0,
  failure jsonb,
  failed_at timestamp with time zone,
  next_at timestamp with time zone,
  holder text,
  lease_until timestamp with time zone,
  sign_at timestamp with time zone,
  phase text,
  file_name text not null default ''::text,
  current_bytes bigint not null default 0,
  total_bytes bigint not null default 0,
  progress_seq bigint,
  is_room_made boolean not null default false,
  note text not null default ''::text,
  requested_at timestamp with time zone not null default now(),
  row_version bigint not null default 0,
  is_paused boolean not null default false,
  constraint loads_pkey PRIMARY KEY (model, purpose, ordinal),
  constraint loads_model_fkey FOREIGN KEY (model) REFERENCES models(name) ON DELETE CASCADE,
  constraint loads_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE SET NULL,
  constraint loads_pinned_node_id_fkey FOREIGN KEY (pinned_node_id) REFERENCES nodes(id) ON DELETE SET NULL,
  constraint lease_is_whole CHECK (((holder IS NULL) = (lease_until IS NULL))),
  constraint load_is_one_case CHECK (
CASE state
    WHEN 'waiting'::text THEN ((replica_id IS NULL) AND (install_id IS NULL) AND (next_at IS NOT NULL))
    WHEN 'installing'::text THEN ((node_id IS NOT NULL) AND (install_id IS NOT NULL) AND (replica_id IS NULL) AND (next_at IS NOT NULL))
    WHEN 'starting'::text THEN ((node_id IS NOT NULL) AND (op_id IS NOT NULL) AND ((replica_id IS NOT NULL) OR (purpose = 'stage'::text)) AND (next_at IS NOT NULL))
    WHEN 'ready'::text THEN (((replica_id IS NOT NULL) OR (purpose = 'stage'::text)) AND (next_at IS NULL) AND (failure IS NULL))
    WHEN 'failed'::text THEN ((failure IS NOT NULL) AND (failed_at IS NOT NULL) AND (replica_id IS NULL) AND (install_id IS NULL))
    ELSE NULL::boolean
END),
  constraint loads_attempts_check CHECK ((attempts >= 0)),
  constraint loads_current_bytes_check CHECK ((current_bytes >= 0)),
  constraint loads_ordinal_check CHECK ((ordinal >= 0)),
  constraint loads_phase_check CHECK ((phase = ANY (ARRAY['resolving'::text, 'downloading'::text, 'extracting'::text, 'starting'::text]))),
  constraint loads_purpose_check CHECK ((purpose = ANY (ARRAY['serve'::text, 'stage'::text]))),
  constraint loads_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'installing'::text, 'starting'::text, 'ready'::text, 'failed'::text]))),
  constraint loads_total_bytes_check CHECK ((total_bytes >= 0)),
  constraint only_stages_are_paused CHECK (((NOT is_paused) OR (purpose = 'stage'::text)))
);

create table login_links (
  secret_sha256 text not null,
  expires_at timestamp with time zone not null,
  constraint login_links_pkey PRIMARY KEY (secret_sha256),
  constraint login_links_secret_sha256_check CHECK ((secret_sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table model_files (
  model text not null,
  filename text not null,
  digest text,
  size_bytes bigint,
  facts jsonb,
  updated_at timestamp with time zone not null default now(),
  constraint model_files_pkey PRIMARY KEY (model, filename),
  constraint model_files_model_fkey FOREIGN KEY (model) REFERENCES models(name) ON DELETE CASCADE,
  constraint model_files_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
  constraint model_files_facts_check CHECK ((jsonb_typeof(facts) = 'object'::text)),
  constraint model_files_filename_check CHECK (((length(filename) >= 1) AND (length(filename) <= 1024))),
  constraint model_files_size_bytes_check CHECK ((size_bytes >= 0))
);

create table model_load_info (
  model text not null,
  backend text not null,
  revision text not null,
  options jsonb not null,
  updated_at timestamp with time zone not null default clock_timestamp(),
  constraint model_load_info_pkey PRIMARY KEY (model),
  constraint model_load_info_model_check CHECK ((model <> ''::text))
);

create table model_removals (
  node_id text not null,
  model text not null,
  operation_id text not null,
  attempts integer not null default 0,
  last_failure jsonb,
  next_at timestamp with time zone not null default now(),
  holder text,
  lease_until timestamp with time zone,
  constraint model_removals_pkey PRIMARY KEY (node_id, model),
  constraint model_removals_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE,
  constraint removal_lease_is_whole CHECK (((holder IS NULL) = (lease_until IS NULL)))
);

create table model_uploads (
  model text not null,
  filename text not null,
  digest text not null,
  size_bytes bigint not null,
  uploaded_at timestamp with time zone not null default now(),
  constraint model_uploads_pkey PRIMARY KEY (model, filename),
  constraint model_uploads_digest_check CHECK ((digest ~ '^sha256:[0-9a-f]{64}$'::text)),
  constraint model_uploads_size_bytes_check CHECK ((size_bytes >= 0))
);

create table models (
  name text not null,
  config jsonb not null,
  revision text not null,
  backend text not null,
  requested_replicas integer not null default 0,
  is_unloaded boolean not null default false,
  used_at timestamp with time zone,
  busy_since timestamp with time zone,
  slack_since timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint models_pkey PRIMARY KEY (name),
  constraint models_name_check CHECK (((name ~ '^[^._:@/+-].{0,199}$'::text) AND (name !~ '\.\.|//'::text) AND (name !~ '[\u0001-\u002a\u002c\u003b-\u003f\u005b-\u005e\u0060\u007b-\u00a0]'::text) AND (name IS NFC NORMALIZED))),
  constraint models_requested_replicas_check CHECK ((requested_replicas >= 0)),
  constraint models_revision_check CHECK (((length(revision) >= 1) AND (length(revision) <= 128)))
);

create table node_prefetches (
  node_id text not null,
  model text not null,
  revision text not null,
  constraint node_prefetches_pkey PRIMARY KEY (node_id, model),
  constraint node_prefetches_model_fkey FOREIGN KEY (model) REFERENCES models(name) ON DELETE CASCADE,
  constraint node_prefetches_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE
);

create table node_pulses (
  node_id text not null,
  liveness text not null default 'new'::text,
  answering text not null default 'yes'::text,
  last_seen_at timestamp with time zone,
  incarnation text,
  seq bigint,
  resources jsonb not null,
  reported_at timestamp with time zone,
  in_flight integer not null default 0,
  probed_at timestamp with time zone,
  constraint node_pulses_pkey PRIMARY KEY (node_id),
  constraint node_pulses_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE,
  constraint node_pulses_answering_check CHECK ((answering = ANY (ARRAY['yes'::text, 'unproven'::text, 'no'::text]))),
  constraint node_pulses_in_flight_check CHECK ((in_flight >= 0)),
  constraint node_pulses_liveness_check CHECK ((liveness = ANY (ARRAY['new'::text, 'present'::text, 'silent'::text, 'gone'::text, 'left'::text]))),
  constraint present_was_seen CHECK (((liveness <> 'present'::text) OR (last_seen_at IS NOT NULL)))
) with (fillfactor=60);

create table node_unloads (
  model text not null,
  node_id text not null,
  requested_by text not null,
  created_at timestamp with time zone not null default now(),
  constraint node_unloads_pkey PRIMARY KEY (model, node_id),
  constraint node_unloads_model_fkey FOREIGN KEY (model) REFERENCES models(name) ON DELETE CASCADE,
  constraint node_unloads_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE
);

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
  registration_signed_at timestamp with time zone,
  inventory jsonb not null default '[]'::jsonb,
  inventory_incarnation text,
  inventory_seq bigint,
  inventory_at timestamp with time zone,
  files jsonb not null default '[]'::jsonb,
  gateway_secret text not null default replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text),
  created_at timestamp with time zone not null default now(),
  approved_at timestamp with time zone,
  approved_by text,
  prefetch_models text[] not null default '{}'::text[],
  max_replicas_per_model integer,
  constraint nodes_pkey PRIMARY KEY (id),
  constraint nodes_public_key_key UNIQUE (public_key),
  constraint approval_is_whole CHECK (((approved_at IS NULL) = (approved_by IS NULL))),
  constraint nodes_id_check CHECK ((id ~ '^[a-z0-9-]{1,63}$'::text)),
  constraint nodes_max_replicas_per_model_check CHECK (((max_replicas_per_model >= 1) AND (max_replicas_per_model <= 65536))),
  constraint nodes_name_check CHECK (((length(name) >= 1) AND (length(name) <= 255))),
  constraint nodes_node_type_check CHECK ((node_type = ANY (ARRAY['backend'::text, 'agent'::text]))),
  constraint nodes_public_key_check CHECK ((public_key ~ '^U[A-Z2-7]{55}$'::text))
);

create table operation_nodes (
  operation_id text not null,
  node_id text not null,
  node_name text not null,
  generation bigint,
  status text not null,
  message text not null default ''::text,
  error text,
  error_code text,
  attempts integer not null default 0,
  dead boolean not null default false,
  current_bytes bigint not null default 0,
  total_bytes bigint not null default 0,
  percentage real not null default 0,
  ring integer,
  finished_at timestamp with time zone,
  shown text,
  phase text,
  file_name text not null default ''::text,
  next_retry_at timestamp with time zone,
  proving bigint,
  previous jsonb,
  constraint operation_nodes_pkey PRIMARY KEY (operation_id, node_id),
  constraint operation_nodes_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES operations(id) ON DELETE CASCADE,
  constraint operation_node_is_one_case CHECK (
CASE status
    WHEN 'open'::text THEN (((generation IS NULL) <> (shown IS NULL)) AND (NOT dead) AND (finished_at IS NULL) AND ((shown = 'error'::text) OR ((error IS NULL) AND (error_code IS NULL))))
    WHEN 'error'::text THEN ((error IS NOT NULL) AND (error_code IS NOT NULL) AND (finished_at IS NOT NULL))
    ELSE ((error IS NULL) AND (error_code IS NULL) AND (NOT dead) AND (finished_at IS NOT NULL))
END),
  constraint operation_nodes_phase_check CHECK ((phase = ANY (ARRAY['resolving'::text, 'downloading'::text, 'extracting'::text, 'starting'::text]))),
  constraint operation_nodes_shown_check CHECK ((shown = ANY (ARRAY['queued'::text, 'downloading'::text, 'running_on_worker'::text, 'error'::text]))),
  constraint operation_nodes_status_check CHECK ((status = ANY (ARRAY['open'::text, 'success'::text, 'error'::text, 'cancelled'::text, 'skipped'::text])))
);

create table operations (
  id text not null,
  kind text not null,
  backend text,
  model text,
  requested_by text not null,
  options jsonb not null default '{}'::jsonb,
  progress real not null default 0,
  file_name text not null default ''::text,
  created_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  outcome text,
  message text not null default ''::text,
  current_bytes bigint not null default 0,
  total_bytes bigint not null default 0,
  cancel_requested boolean not null default false,
  paused_at timestamp with time zone,
  dismissed_at timestamp with time zone,
  constraint operations_pkey PRIMARY KEY (id),
  constraint dismissed_is_finished CHECK (((dismissed_at IS NULL) OR (finished_at IS NOT NULL))),
  constraint operation_can_be_paused CHECK (((paused_at IS NULL) OR (backend IS NOT NULL) OR (kind = 'model.install'::text))),
  constraint operation_is_about_one_thing CHECK (((backend IS NULL) <> (model IS NULL))),
  constraint operations_current_bytes_check CHECK ((current_bytes >= 0)),
  constraint operations_id_check CHECK ((id ~ '^[A-Za-z0-9_-]{1,64}$'::text)),
  constraint operations_kind_check CHECK ((kind = ANY (ARRAY['backend.install'::text, 'backend.upgrade'::text, 'backend.delete'::text, 'model.install'::text, 'model.load'::text, 'model.unload'::text, 'model.delete'::text, 'model.prefetch'::text]))),
  constraint operations_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text]))),
  constraint operations_progress_check CHECK (((progress >= (0)::double precision) AND (progress <= (100)::double precision))),
  constraint operations_total_bytes_check CHECK ((total_bytes >= 0)),
  constraint outcome_is_of_a_model CHECK (
CASE
    WHEN (model IS NULL) THEN (outcome IS NULL)
    ELSE ((finished_at IS NULL) = (outcome IS NULL))
END),
  constraint paused_is_open CHECK (((paused_at IS NULL) OR (finished_at IS NULL)))
);

create table replicas (
  id text not null,
  model text not null,
  revision text not null,
  ordinal integer,
  node_id text not null,
  slot integer not null default 0,
  backend text not null,
  backend_digest text,
  config jsonb not null,
  state text not null,
  op_id text,
  incarnation text,
  seq bigint,
  checked text not null default 'passed'::text,
  check_holder text,
  check_until timestamp with time zone,
  check_since timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  ready_at timestamp with time zone,
  drain_since timestamp with time zone,
  stop_sent_at timestamp with time zone,
  exited_at timestamp with time zone,
  exit jsonb,
  booking jsonb,
  constraint replicas_pkey PRIMARY KEY (id),
  constraint replicas_node_id_fkey FOREIGN KEY (node_id) REFERENCES nodes(id) ON DELETE CASCADE,
  constraint check_lease_is_whole CHECK (((check_holder IS NULL) = (check_until IS NULL))),
  constraint replica_is_one_case CHECK (
CASE state
    WHEN 'starting'::text THEN ((ready_at IS NULL) AND (drain_since IS NULL) AND (exited_at IS NULL))
    WHEN 'ready'::text THEN ((ready_at IS NOT NULL) AND (drain_since IS NULL) AND (exited_at IS NULL))
    WHEN 'draining'::text THEN ((drain_since IS NOT NULL) AND (exited_at IS NULL))
    ELSE (exited_at IS NOT NULL)
END),
  constraint replicas_booking_check CHECK (((jsonb_typeof(booking) = 'object'::text) AND ((booking ->> 'device'::text) = ANY (ARRAY['cpu'::text, 'gpu'::text])))),
  constraint replicas_checked_check CHECK ((checked = ANY (ARRAY['due'::text, 'passed'::text, 'failed'::text]))),
  constraint replicas_id_check CHECK ((id ~ '^[A-Za-z0-9_-]{1,64}$'::text)),
  constraint replicas_ordinal_check CHECK ((ordinal >= 0)),
  constraint replicas_slot_check CHECK ((slot >= 0)),
  constraint replicas_state_check CHECK ((state = ANY (ARRAY['starting'::text, 'ready'::text, 'draining'::text, 'exited'::text])))
);

create table rollouts (
  operation_id text not null,
  backend text not null,
  spec jsonb not null,
  state text not null,
  ring integer not null default 1,
  rings integer not null,
  well_since timestamp with time zone,
  waits_for integer,
  waits_since timestamp with time zone,
  failure jsonb,
  created_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  constraint rollouts_pkey PRIMARY KEY (operation_id),
  constraint rollouts_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES operations(id) ON DELETE CASCADE,
  constraint rollout_is_one_case CHECK (
CASE state
    WHEN 'running'::text THEN ((finished_at IS NULL) AND (failure IS NULL))
    WHEN 'returning'::text THEN ((finished_at IS NULL) AND (failure IS NOT NULL))
    WHEN 'failed'::text THEN ((finished_at IS NOT NULL) AND (failure IS NOT NULL))
    ELSE ((finished_at IS NOT NULL) AND (failure IS NULL))
END),
  constraint rollouts_ring_check CHECK ((ring >= 1)),
  constraint rollouts_rings_check CHECK ((rings >= 1)),
  constraint rollouts_state_check CHECK ((state = ANY (ARRAY['running'::text, 'returning'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text]))),
  constraint wait_is_whole CHECK (((waits_for IS NULL) = (waits_since IS NULL)))
);

create table runtime_settings (
  flag text not null,
  value text not null,
  constraint runtime_settings_pkey PRIMARY KEY (flag),
  constraint runtime_settings_flag_check CHECK ((flag ~ '^[a-z][a-z0-9-]{0,62}$'::text)),
  constraint runtime_settings_value_check CHECK ((length(value) <= 1024))
);

create table scheduling_file (
  one boolean not null default true,
  sha256 text not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint scheduling_file_pkey PRIMARY KEY (one),
  constraint scheduling_file_one_check CHECK (one),
  constraint scheduling_file_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text))
);

create table scheduling_rules (
  model text not null,
  scheduling jsonb not null,
  is_applied boolean not null default false,
  constraint scheduling_rules_pkey PRIMARY KEY (model)
);

create table schema_migrations (
  version integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default now(),
  constraint schema_migrations_pkey PRIMARY KEY (version)
);

create table setting_changes (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default clock_timestamp(),
  flag text not null,
  changed_by text not null,
  value_before text,
  value_after text,
  constraint setting_changes_pkey PRIMARY KEY (id),
  constraint setting_has_changed CHECK ((value_before IS DISTINCT FROM value_after))
);

create table stats_buckets (
  at timestamp with time zone not null,
  model text not null,
  node_id text not null,
  requests bigint not null default 0,
  errors bigint not null default 0,
  client_errors bigint not null default 0,
  overloaded bigint not null default 0,
  prompt_tokens bigint not null default 0,
  completion_tokens bigint not null default 0,
  in_flight integer not null default 0,
  duration_ms bigint not null default 0,
  constraint stats_buckets_pkey PRIMARY KEY (at, model, node_id)
);

CREATE INDEX changes_by_seq ON public.changes USING btree (seq);

CREATE INDEX intent_events_by_row ON public.intent_events USING btree (node_id, backend, id);

CREATE INDEX intents_due ON public.intents USING btree (next_at, generation) WHERE ((next_at IS NOT NULL) AND (NOT is_parked) AND (NOT awaits_ring));

CREATE INDEX intents_leased ON public.intents USING btree (lease_until) WHERE (lease_until IS NOT NULL);

CREATE INDEX intents_open_by_node ON public.intents USING btree (node_id, generation) WHERE (state = ANY (ARRAY['waiting'::text, 'sending'::text, 'working'::text]));

CREATE INDEX intents_working ON public.intents USING btree (accepted_at) WHERE (state = 'working'::text);

CREATE INDEX loads_by_op ON public.loads USING btree (op_id) WHERE (op_id IS NOT NULL);

CREATE INDEX loads_by_replica ON public.loads USING btree (replica_id) WHERE (replica_id IS NOT NULL);

CREATE INDEX loads_due ON public.loads USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX node_unloads_by_node ON public.node_unloads USING btree (node_id);

CREATE UNIQUE INDEX one_live_replica_per_load ON public.replicas USING btree (model, ordinal) WHERE ((ordinal IS NOT NULL) AND (state <> 'exited'::text));

CREATE UNIQUE INDEX one_live_replica_per_slot ON public.replicas USING btree (node_id, model, slot) WHERE (state <> 'exited'::text);

CREATE UNIQUE INDEX one_prefetch_per_node ON public.loads USING btree (model, pinned_node_id) WHERE ((purpose = 'stage'::text) AND (pinned_node_id IS NOT NULL));

CREATE INDEX operation_nodes_by_generation ON public.operation_nodes USING btree (generation);

CREATE INDEX operation_nodes_open_by_node ON public.operation_nodes USING btree (node_id) WHERE (status = 'open'::text);

CREATE INDEX operation_nodes_proving ON public.operation_nodes USING btree (proving) WHERE (proving IS NOT NULL);

CREATE INDEX operations_active ON public.operations USING btree (created_at DESC) WHERE (finished_at IS NULL);

CREATE INDEX operations_finished ON public.operations USING btree (finished_at DESC) WHERE (finished_at IS NOT NULL);

CREATE INDEX operations_paused ON public.operations USING btree (backend, model) WHERE (paused_at IS NOT NULL);

CREATE INDEX replicas_by_node ON public.replicas USING btree (node_id) WHERE (state <> 'exited'::text);

CREATE INDEX replicas_exited ON public.replicas USING btree (exited_at) WHERE (state = 'exited'::text);

CREATE INDEX replicas_live ON public.replicas USING btree (model) WHERE (state <> 'exited'::text);

CREATE INDEX replicas_to_check ON public.replicas USING btree (id) WHERE ((checked = 'due'::text) AND (state = 'ready'::text));

CREATE INDEX rollouts_open ON public.rollouts USING btree (created_at) WHERE (finished_at IS NULL);

CREATE OR REPLACE FUNCTION public.galleries_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('settings', 'galleries', false);
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.intent_events_are_history()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'intent_events is append-only';
end
$function$;

CREATE OR REPLACE FUNCTION public.load_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  model_name text := case when tg_op = 'DELETE' then old.model else new.model end;
begin
  if exists (select from models m where m.name = model_name) then perform record_change('model', model_name, false); end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.model_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('model', case when tg_op = 'DELETE' then old.name else new.name end, tg_op = 'DELETE');
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('node', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_drained()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform nodes_turned(array[new.id], case when new.draining then '{}'::text[] else array[new.id] end);
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_inventory_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('backend', b.name, false) from (
    select name from (
      (select e ->> 'name' as name, e from jsonb_array_elements(new.inventory) e
       except select e ->> 'name', e from jsonb_array_elements(old.inventory) e)
      union
      (select e ->> 'name' as name, e from jsonb_array_elements(old.inventory) e
       except select e ->> 'name', e from jsonb_array_elements(new.inventory) e)
    ) d where name is not null group by name order by name
  ) b;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_may_be_tried(wanted text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce((
    select n.approved_at is not null and n.node_type <> 'agent' and not n.draining and p.liveness = 'present' and p.answering <> 'unproven'
    from nodes n join node_pulses p on p.node_id = n.id where n.id = wanted
  ), false)
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

CREATE OR REPLACE FUNCTION public.node_pulses_turned()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
    update intents set next_at = now(), row_version = row_version + 1
    where node_id = any(returned) and wait = 'another_try' and next_at > now();
  end if;
  if restarted is not null then
    update intents set wait = 'another_try', next_at = now(), holder = null, lease_until = null, row_version = row_version + 1
    where node_id = any(restarted) and wait in ('reply', 'another_try');
  end if;
  if turned is not null then perform nodes_turned(turned, coalesce(returned, '{}')); end if;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.node_unload_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  about node_unloads := case when tg_op = 'DELETE' then old else new end;
begin
  if exists (select from models m where m.name = about.model) then perform record_change('model', about.model, false); end if;
  perform record_change('node', n.id, false) from nodes n where n.id = about.node_id;
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.nodes_turned(node_ids text[], returned text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update intents i set is_parked = not node_may_be_tried(i.node_id),
    next_at = case when i.node_id = any(returned) then least(i.next_at, now()) else i.next_at end, row_version = i.row_version + 1
  where i.node_id = any(node_ids) and i.state = 'waiting';
  perform operations_of_nodes_changed(node_ids);
end
$function$;

CREATE OR REPLACE FUNCTION public.operations_of_nodes_changed(node_ids text[])
 RETURNS void
 LANGUAGE sql
AS $function$
  select record_change('operation', o.operation_id, false) from (
    select distinct operation_id from operation_nodes where node_id = any(node_ids) and status = 'open' order by operation_id
  ) o
$function$;

CREATE OR REPLACE FUNCTION public.record_change(change_kind text, change_id text, is_deleted boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  now_ms constant bigint := extract(epoch from clock_timestamp()) * 1000;
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
      null; -- inserted concurrently: update that row
    end;
  end loop;
  if now_ms - coalesce(nullif(current_setting('muster.notified_at', true), ''), '0')::bigint > 250 then
    perform set_config('muster.notified_at', now_ms::text, false);
    perform pg_notify('muster_changes', '');
  end if;
end
$function$;

CREATE OR REPLACE FUNCTION public.replica_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  model_name text := case when tg_op = 'DELETE' then old.model else new.model end;
begin
  if tg_op = 'DELETE' and old.state = 'exited' then
    perform record_change('replica', old.id, true);
    return null;
  end if;
  if exists (select from models m where m.name = model_name) then perform record_change('model', model_name, false); end if;
  perform record_change('node', n.id, false) from nodes n where n.id = case when tg_op = 'DELETE' then old.node_id else new.node_id end;
  perform record_change('replica', case when tg_op = 'DELETE' then old.id else new.id end, tg_op = 'DELETE');
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.runtime_setting_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform record_change('settings', 'runtime', false);
  return null;
end
$function$;

CREATE OR REPLACE FUNCTION public.update_finished_at(wanted text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from operations where id = wanted for no key update;
  update operations o set finished_at = case when o.finished_at is null then now() end, paused_at = null, dismissed_at = null
  where o.id = wanted and o.backend is not null
    and (o.finished_at is null) <> exists (select from operation_nodes n where n.operation_id = o.id and n.finished_at is null);
end
$function$;

CREATE TRIGGER galleries_added AFTER INSERT OR DELETE ON public.galleries FOR EACH ROW EXECUTE FUNCTION galleries_changed();

CREATE TRIGGER galleries_updated AFTER UPDATE ON public.galleries FOR EACH ROW WHEN (((old.url <> new.url) OR (old.kind <> new.kind))) EXECUTE FUNCTION galleries_changed();

CREATE TRIGGER intent_events_are_history BEFORE UPDATE ON public.intent_events FOR EACH ROW EXECUTE FUNCTION intent_events_are_history();

CREATE TRIGGER load_added AFTER INSERT OR DELETE ON public.loads FOR EACH ROW EXECUTE FUNCTION load_changed();

CREATE TRIGGER load_changed AFTER UPDATE ON public.loads FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) OR (old.node_id IS DISTINCT FROM new.node_id) OR (old.failure IS DISTINCT FROM new.failure) OR (old.phase IS DISTINCT FROM new.phase) OR ((old.next_at IS DISTINCT FROM new.next_at) AND (new.state = 'failed'::text) AND ((new.failure ->> 'code'::text) IS DISTINCT FROM 'no_capacity'::text)))) EXECUTE FUNCTION load_changed();

CREATE TRIGGER model_added AFTER INSERT OR DELETE ON public.models FOR EACH ROW EXECUTE FUNCTION model_changed();

CREATE TRIGGER model_changed AFTER UPDATE ON public.models FOR EACH ROW WHEN (((to_jsonb(old.*) - '{used_at,busy_since,slack_since}'::text[]) IS DISTINCT FROM (to_jsonb(new.*) - '{used_at,busy_since,slack_since}'::text[]))) EXECUTE FUNCTION model_changed();

CREATE TRIGGER node_pulse_changed AFTER UPDATE ON public.node_pulses FOR EACH ROW WHEN (((old.liveness <> new.liveness) OR (old.answering <> new.answering))) EXECUTE FUNCTION node_pulse_changed();

CREATE TRIGGER node_pulses_turned AFTER UPDATE ON public.node_pulses REFERENCING OLD TABLE AS old_pulses NEW TABLE AS new_pulses FOR EACH STATEMENT EXECUTE FUNCTION node_pulses_turned();

CREATE TRIGGER node_unload_added AFTER INSERT OR DELETE ON public.node_unloads FOR EACH ROW EXECUTE FUNCTION node_unload_changed();

CREATE TRIGGER node_changed AFTER INSERT OR DELETE ON public.nodes FOR EACH ROW EXECUTE FUNCTION node_changed();

CREATE TRIGGER node_drained AFTER UPDATE OF draining ON public.nodes FOR EACH ROW WHEN ((old.draining <> new.draining)) EXECUTE FUNCTION node_drained();

CREATE TRIGGER node_edited AFTER UPDATE ON public.nodes FOR EACH ROW WHEN (((to_jsonb(old.*) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[]) IS DISTINCT FROM (to_jsonb(new.*) - '{inventory_incarnation,inventory_seq,inventory_at,registration_signed_at}'::text[]))) EXECUTE FUNCTION node_changed();

CREATE TRIGGER node_inventory_changed AFTER UPDATE OF inventory ON public.nodes FOR EACH ROW WHEN ((old.inventory <> new.inventory)) EXECUTE FUNCTION node_inventory_changed();

CREATE TRIGGER replica_added AFTER INSERT OR DELETE ON public.replicas FOR EACH ROW EXECUTE FUNCTION replica_changed();

CREATE TRIGGER replica_changed AFTER UPDATE ON public.replicas FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) OR (old.ordinal IS DISTINCT FROM new.ordinal) OR (old.checked IS DISTINCT FROM new.checked) OR (old.incarnation IS DISTINCT FROM new.incarnation))) EXECUTE FUNCTION replica_changed();

CREATE TRIGGER runtime_setting_changed AFTER INSERT OR DELETE OR UPDATE ON public.runtime_settings FOR EACH ROW EXECUTE FUNCTION runtime_setting_changed();
