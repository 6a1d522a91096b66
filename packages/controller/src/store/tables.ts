// Generated from the migrations by `npm run db:dump`. Do not edit.
import type { Defaulted, Json, Timestamp } from './column-types.ts'

export interface ApiKeysTable {
  id: string
  name: string
  scope: 'inference' | 'read' | 'admin'
  secret_sha256: string
  created_at: Defaulted<Timestamp>
  last_used_at: Timestamp | null
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

export interface GalleriesTable {
  name: string
  url: string
  kind: 'backend' | 'model'
  origin: 'setting' | 'api'
  created_at: Defaulted<Timestamp>
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
}

export interface SchemaMigrationsTable {
  version: number
  name: string
  checksum: string
  applied_at: Defaulted<Timestamp>
}

export interface Database {
  api_keys: ApiKeysTable
  browser_sessions: BrowserSessionsTable
  change_floor: ChangeFloorTable
  changes: ChangesTable
  controllers: ControllersTable
  galleries: GalleriesTable
  join_tokens: JoinTokensTable
  login_links: LoginLinksTable
  node_pulses: NodePulsesTable
  nodes: NodesTable
  schema_migrations: SchemaMigrationsTable
}
