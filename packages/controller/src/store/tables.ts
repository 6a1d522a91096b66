// Generated from the migrations by `npm run db:dump`. Do not edit.
import type { Computed, Defaulted, Json, Timestamp } from './column-types.ts'

export interface ApiKeysTable {
  id: string
  name: string
  scope: 'inference' | 'read' | 'admin'
  secret_sha256: string
  created_at: Defaulted<Timestamp>
  last_used_at: Timestamp | null
}

export interface AvailableBackendsTable {
  backend: string
  concrete: string
  platform: string
  uri: string
  digest: string
  version: string
  checked_at: Defaulted<Timestamp>
}

export interface BrowserSessionsTable {
  secret_sha256: string
  created_at: Defaulted<Timestamp>
  expires_at: Timestamp
}

export interface ChangeFloorTable {
  one: Defaulted<boolean>
  seq: number
}

export interface ChangesTable {
  kind: string
  id: string
  seq: number
  deleted: boolean
  at: Timestamp
}

export interface ControllersTable {
  id: string
  url: string
  version: string
  started_at: Defaulted<Timestamp>
  last_seen_at: Defaulted<Timestamp>
  routes_seq: Defaulted<number>
  pinned_settings: Defaulted<Json>
}

export interface DutiesTable {
  name: string
  holder: string | null
  lease_until: Timestamp | null
  done_at: Timestamp | null
  report: Defaulted<Json>
}

export interface FileContentsTable {
  digest: string
  size_bytes: number | null
  facts: Json | null
  is_verified: boolean
  updated_at: Defaulted<Timestamp>
}

export interface GalleriesTable {
  name: string
  url: string
  kind: 'backend' | 'model'
  origin: 'setting' | 'api'
  created_at: Defaulted<Timestamp>
}

export interface IdempotencyKeysTable {
  key: string
  caller: string
  request_sha256: string
  status: number
  response: Json
  created_at: Defaulted<Timestamp>
}

export interface IntentEventsTable {
  id: Computed<number>
  at: Defaulted<Timestamp>
  node_id: string
  backend: string
  generation: number
  epoch: number
  type: string
  detail: Defaulted<Json>
}

export interface IntentsTable {
  node_id: string
  backend: string
  kind: 'install' | 'upgrade' | 'delete'
  generation: number
  epoch: Defaulted<number>
  op_id: string
  replaced: Defaulted<string[]>
  plan: Json
  attempts: Defaulted<number>
  last_failure: Json | null
  cancel_requested: Defaulted<boolean>
  state: 'waiting' | 'sending' | 'working' | 'applied' | 'failed' | 'dead' | 'cancelled'
  next_at: Timestamp | null
  is_parked: Defaulted<boolean>
  awaits_ring: Defaulted<boolean>
  was_sent: Defaulted<boolean>
  wait: 'result' | 'reply' | 'another_try' | null
  holder: string | null
  lease_until: Timestamp | null
  accepted_at: Timestamp | null
  sign_at: Timestamp | null
  is_overdue: Defaulted<boolean>
  finished_at: Timestamp | null
  note: Defaulted<string>
  phase: 'resolving' | 'downloading' | 'extracting' | 'starting' | null
  file_name: Defaulted<string>
  current_bytes: Defaulted<number>
  total_bytes: Defaulted<number>
  percentage: Defaulted<number>
  progress_seq: number | null
  tried_since: Defaulted<number>
  polled_at: Timestamp | null
  requested_at: Defaulted<Timestamp>
  row_version: Defaulted<number>
  is_paused: Defaulted<boolean>
}

export interface JoinTokensTable {
  secret_sha256: string
  created_at: Defaulted<Timestamp>
  expires_at: Timestamp | null
}

export interface LoadsTable {
  model: string
  purpose: 'serve' | 'stage'
  ordinal: number
  revision: string
  operation_id: string | null
  state: 'waiting' | 'installing' | 'starting' | 'ready' | 'failed'
  epoch: Defaulted<number>
  op_id: string | null
  node_id: string | null
  pinned_node_id: string | null
  replica_id: string | null
  install_id: string | null
  needs_check: Defaulted<boolean>
  attempts: Defaulted<number>
  failure: Json | null
  failed_at: Timestamp | null
  next_at: Timestamp | null
  holder: string | null
  lease_until: Timestamp | null
  sign_at: Timestamp | null
  phase: 'resolving' | 'downloading' | 'extracting' | 'starting' | null
  file_name: Defaulted<string>
  current_bytes: Defaulted<number>
  total_bytes: Defaulted<number>
  progress_seq: number | null
  is_room_made: Defaulted<boolean>
  note: Defaulted<string>
  requested_at: Defaulted<Timestamp>
  row_version: Defaulted<number>
  is_paused: Defaulted<boolean>
}

export interface LoginLinksTable {
  secret_sha256: string
  expires_at: Timestamp
}

export interface ModelFilesTable {
  model: string
  filename: string
  digest: string | null
  size_bytes: number | null
  facts: Json | null
  updated_at: Defaulted<Timestamp>
}

export interface ModelLoadInfoTable {
  model: string
  backend: string
  revision: string
  options: Json
  updated_at: Defaulted<Timestamp>
}

export interface ModelRemovalsTable {
  node_id: string
  model: string
  operation_id: string
  attempts: Defaulted<number>
  last_failure: Json | null
  next_at: Defaulted<Timestamp>
  holder: string | null
  lease_until: Timestamp | null
}

export interface ModelUploadsTable {
  model: string
  filename: string
  digest: string
  size_bytes: number
  uploaded_at: Defaulted<Timestamp>
}

export interface ModelsTable {
  name: string
  config: Json
  revision: string
  backend: string
  requested_replicas: Defaulted<number>
  is_unloaded: Defaulted<boolean>
  used_at: Timestamp | null
  busy_since: Timestamp | null
  slack_since: Timestamp | null
  created_at: Defaulted<Timestamp>
  updated_at: Defaulted<Timestamp>
}

export interface NodePrefetchesTable {
  node_id: string
  model: string
  revision: string
}

export interface NodePulsesTable {
  node_id: string
  liveness: Defaulted<'new' | 'present' | 'silent' | 'gone' | 'left'>
  answering: Defaulted<'yes' | 'unproven' | 'no'>
  last_seen_at: Timestamp | null
  incarnation: string | null
  seq: number | null
  resources: Json
  reported_at: Timestamp | null
  in_flight: Defaulted<number>
  probed_at: Timestamp | null
}

export interface NodeUnloadsTable {
  model: string
  node_id: string
  requested_by: string
  created_at: Defaulted<Timestamp>
}

export interface NodesTable {
  id: string
  public_key: string
  name: string
  node_type: 'backend' | 'agent'
  version: string
  features: string[]
  os: string
  arch: string
  capability: string
  gateway_url: string
  reported_labels: Json
  label_overrides: Defaulted<Json>
  vram_budget: string | null
  draining: Defaulted<boolean>
  incarnation: string
  registration_signed_at: Timestamp | null
  inventory: Defaulted<Json>
  inventory_incarnation: string | null
  inventory_seq: number | null
  inventory_at: Timestamp | null
  files: Defaulted<Json>
  gateway_secret: Defaulted<string>
  created_at: Defaulted<Timestamp>
  approved_at: Timestamp | null
  approved_by: string | null
  prefetch_models: Defaulted<string[]>
  max_replicas_per_model: number | null
}

export interface OperationNodesTable {
  operation_id: string
  node_id: string
  node_name: string
  generation: number | null
  status: 'open' | 'success' | 'error' | 'cancelled' | 'skipped'
  message: Defaulted<string>
  error: string | null
  error_code: string | null
  attempts: Defaulted<number>
  dead: Defaulted<boolean>
  current_bytes: Defaulted<number>
  total_bytes: Defaulted<number>
  percentage: Defaulted<number>
  ring: number | null
  finished_at: Timestamp | null
  shown: 'queued' | 'downloading' | 'running_on_worker' | 'error' | null
  phase: 'resolving' | 'downloading' | 'extracting' | 'starting' | null
  file_name: Defaulted<string>
  next_retry_at: Timestamp | null
  proving: number | null
  previous: Json | null
}

export interface OperationsTable {
  id: string
  kind:
    | 'backend.install'
    | 'backend.upgrade'
    | 'backend.delete'
    | 'model.install'
    | 'model.load'
    | 'model.unload'
    | 'model.delete'
    | 'model.prefetch'
  backend: string | null
  model: string | null
  requested_by: string
  options: Defaulted<Json>
  progress: Defaulted<number>
  file_name: Defaulted<string>
  created_at: Defaulted<Timestamp>
  finished_at: Timestamp | null
  outcome: 'succeeded' | 'failed' | 'cancelled' | null
  message: Defaulted<string>
  current_bytes: Defaulted<number>
  total_bytes: Defaulted<number>
  cancel_requested: Defaulted<boolean>
  paused_at: Timestamp | null
  dismissed_at: Timestamp | null
}

export interface ReplicasTable {
  id: string
  model: string
  revision: string
  ordinal: number | null
  node_id: string
  slot: Defaulted<number>
  backend: string
  backend_digest: string | null
  config: Json
  state: 'starting' | 'ready' | 'draining' | 'exited'
  op_id: string | null
  incarnation: string | null
  seq: number | null
  checked: Defaulted<'due' | 'passed' | 'failed'>
  check_holder: string | null
  check_until: Timestamp | null
  check_since: Timestamp | null
  created_at: Defaulted<Timestamp>
  ready_at: Timestamp | null
  drain_since: Timestamp | null
  stop_sent_at: Timestamp | null
  exited_at: Timestamp | null
  exit: Json | null
  booking: Json | null
}

export interface RolloutsTable {
  operation_id: string
  backend: string
  spec: Json
  state: 'running' | 'returning' | 'succeeded' | 'failed' | 'cancelled'
  ring: Defaulted<number>
  rings: number
  well_since: Timestamp | null
  waits_for: number | null
  waits_since: Timestamp | null
  failure: Json | null
  created_at: Defaulted<Timestamp>
  finished_at: Timestamp | null
}

export interface RuntimeSettingsTable {
  flag: string
  value: string
}

export interface SchedulingFileTable {
  one: Defaulted<boolean>
  sha256: string
  applied_at: Defaulted<Timestamp>
}

export interface SchedulingRulesTable {
  model: string
  scheduling: Json
  is_applied: Defaulted<boolean>
}

export interface SchemaMigrationsTable {
  version: number
  name: string
  checksum: string
  applied_at: Defaulted<Timestamp>
}

export interface SettingChangesTable {
  id: Computed<number>
  at: Defaulted<Timestamp>
  flag: string
  changed_by: string
  value_before: string | null
  value_after: string | null
}

export interface StatsBucketsTable {
  at: Timestamp
  model: string
  node_id: string
  requests: Defaulted<number>
  errors: Defaulted<number>
  client_errors: Defaulted<number>
  overloaded: Defaulted<number>
  prompt_tokens: Defaulted<number>
  completion_tokens: Defaulted<number>
  in_flight: Defaulted<number>
  duration_ms: Defaulted<number>
}

export interface Database {
  api_keys: ApiKeysTable
  available_backends: AvailableBackendsTable
  browser_sessions: BrowserSessionsTable
  change_floor: ChangeFloorTable
  changes: ChangesTable
  controllers: ControllersTable
  duties: DutiesTable
  file_contents: FileContentsTable
  galleries: GalleriesTable
  idempotency_keys: IdempotencyKeysTable
  intent_events: IntentEventsTable
  intents: IntentsTable
  join_tokens: JoinTokensTable
  loads: LoadsTable
  login_links: LoginLinksTable
  model_files: ModelFilesTable
  model_load_info: ModelLoadInfoTable
  model_removals: ModelRemovalsTable
  model_uploads: ModelUploadsTable
  models: ModelsTable
  node_prefetches: NodePrefetchesTable
  node_pulses: NodePulsesTable
  node_unloads: NodeUnloadsTable
  nodes: NodesTable
  operation_nodes: OperationNodesTable
  operations: OperationsTable
  replicas: ReplicasTable
  rollouts: RolloutsTable
  runtime_settings: RuntimeSettingsTable
  scheduling_file: SchedulingFileTable
  scheduling_rules: SchedulingRulesTable
  schema_migrations: SchemaMigrationsTable
  setting_changes: SettingChangesTable
  stats_buckets: StatsBucketsTable
}
