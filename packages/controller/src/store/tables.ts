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
}

export interface DutiesTable {
  name: string
  holder: string | null
  lease_until: Timestamp | null
  done_at: Timestamp | null
  report: Defaulted<Json>
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
  plan: Json
  attempts: Defaulted<number>
  last_failure: Json | null
  cancel_asked: Defaulted<boolean>
  state: 'waiting' | 'sending' | 'working' | 'applied' | 'failed' | 'dead' | 'cancelled'
  next_at: Timestamp | null
  is_parked: Defaulted<boolean>
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
  asked_at: Timestamp | null
  wished_at: Defaulted<Timestamp>
  revision: Defaulted<number>
  tried_since: Defaulted<number>
}

export interface JoinTokensTable {
  secret_sha256: string
  created_at: Defaulted<Timestamp>
}

export interface LoginLinksTable {
  secret_sha256: string
  expires_at: Timestamp
}

export interface NodePulsesTable {
  node_id: string
  liveness: Defaulted<'new' | 'present' | 'silent' | 'gone' | 'left'>
  answering: Defaulted<'yes' | 'unproven' | 'no'>
  last_seen_at: Timestamp | null
  incarnation: string | null
  seq: number | null
  resources: Json
  in_flight: Defaulted<number>
  probed_at: Timestamp | null
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
  inventory: Defaulted<Json>
  created_at: Defaulted<Timestamp>
  approved_at: Timestamp | null
  approved_by: string | null
  registration_signed_at: Timestamp | null
  inventory_incarnation: string | null
  inventory_seq: number | null
  inventory_at: Timestamp | null
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
}

export interface OperationsTable {
  id: string
  kind: 'backend.install' | 'backend.upgrade' | 'backend.delete' | 'model.install' | 'model.load' | 'model.unload' | 'model.delete'
  backend: string | null
  model: string | null
  requested_by: string
  options: Defaulted<Json>
  open_nodes: number
  progress: Defaulted<number>
  file_name: Defaulted<string>
  created_at: Defaulted<Timestamp>
  finished_at: Timestamp | null
}

export interface SchemaMigrationsTable {
  version: number
  name: string
  checksum: string
  applied_at: Defaulted<Timestamp>
}

export interface Database {
  api_keys: ApiKeysTable
  available_backends: AvailableBackendsTable
  browser_sessions: BrowserSessionsTable
  change_floor: ChangeFloorTable
  changes: ChangesTable
  controllers: ControllersTable
  duties: DutiesTable
  galleries: GalleriesTable
  idempotency_keys: IdempotencyKeysTable
  intent_events: IntentEventsTable
  intents: IntentsTable
  join_tokens: JoinTokensTable
  login_links: LoginLinksTable
  node_pulses: NodePulsesTable
  nodes: NodesTable
  operation_nodes: OperationNodesTable
  operations: OperationsTable
  schema_migrations: SchemaMigrationsTable
}
