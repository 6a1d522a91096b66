// Health, keys, login, events: the parts of /api that are not about one resource of the fleet.
import { z } from 'zod'
import { plainText } from '../ids.ts'
import { NodeStatus } from '../ids.ts'
import { route } from './define.ts'

export const Scope = z.enum(['inference', 'read', 'admin'])
export type Scope = z.infer<typeof Scope>

export const KeyView = z.object({
  id: z.string(),
  name: z.string(),
  scope: Scope,
  created_at: z.string(),
  last_used_at: z.string().nullable(),
})
export type KeyView = z.infer<typeof KeyView>

/** A setting of the running controller. */
export const SettingView = z.object({
  flag: z.string(),
  /** Formatted for people; a secret shows only whether it is set. */
  value: z.string(),
  default: z.string(),
  /** `the command line`, the name of an environment variable, `file:line`, `an administrator`, or `default`. */
  from: z.string(),
  description: z.string(),
  is_secret: z.boolean(),
  /** Administrators can change it while controllers run; left out by older controllers. */
  is_runtime: z.boolean().optional(),
  /** The controller, and the place there, that sets it and so keeps administrators from changing it; null: none. */
  pinned_by: z.string().nullable().optional(),
})
export type SettingView = z.infer<typeof SettingView>

/** Before and after: as people write them; null: the default of each controller. */
export const SettingChangeView = z.object({
  at: z.string(),
  setting: z.string(),
  changed_by: z.string(),
  before: z.string().nullable(),
  after: z.string().nullable(),
})
export type SettingChangeView = z.infer<typeof SettingChangeView>

const settingsOfController = z.object({ controller: z.string(), settings: z.array(SettingView) })

const health = z.object({ status: z.enum(['ok', 'unavailable', 'draining']) })

export const systemRoutes = {
  healthz: route({ method: 'GET', path: '/healthz', access: 'open', summary: 'Liveness: the process runs', response: health }),
  readyz: route({
    method: 'GET',
    path: '/readyz',
    access: 'open',
    summary: 'Readiness: database and bus work, the models are read',
    response: health,
  }),
  version: route({
    method: 'GET',
    path: '/version',
    access: 'open',
    summary: 'Get the version',
    response: z.object({ version: z.string() }),
  }),
  metrics: route({ method: 'GET', path: '/metrics', access: 'metrics', summary: 'Prometheus metrics', produces: 'text/plain' }),
  openapi: route({
    method: 'GET',
    path: '/api/openapi.json',
    access: 'read',
    summary: 'Get the OpenAPI document',
    produces: 'application/json',
  }),
  events: route({
    method: 'GET',
    path: '/api/events',
    access: 'read',
    summary: 'Stream changed objects as server-sent events',
    produces: 'text/event-stream',
  }),
  status: route({
    method: 'GET',
    path: '/api/status',
    access: 'read',
    summary: 'Get a summary of the cluster',
    response: z.object({
      version: z.string(),
      controllers: z.array(
        z.object({ id: z.string(), url: z.string(), version: z.string(), started_at: z.string(), last_seen_at: z.string() }),
      ),
      database: z.object({ version: z.string(), now: z.string() }),
      bus: z.object({
        kind: z.enum(['local', 'nats']),
        connected: z.boolean(),
        /** The bus without credentials per node: any client that reaches it can act for every node. */
        open: z.boolean().optional(),
      }),
      nodes: z.partialRecord(NodeStatus, z.number()),
    }),
  }),
  settings: route({
    method: 'GET',
    path: '/api/settings',
    access: 'read',
    summary: 'List the settings of this controller with their origins; secrets are not shown',
    response: settingsOfController,
  }),
  changeSettings: route({
    method: 'PATCH',
    path: '/api/settings',
    access: 'admin',
    summary: 'Change settings of all controllers while they run, by name (model-load-wait); null restores the default',
    body: z
      .record(z.string().max(64), z.union([z.string().max(1_024), z.number(), z.boolean()]).nullable())
      .refine((settings) => Object.keys(settings).length <= 64, 'at most 64 settings in one change'),
    response: settingsOfController,
  }),
  settingChanges: route({
    method: 'GET',
    path: '/api/settings/changes',
    access: 'read',
    summary: 'List the changes of settings, the newest first',
    query: z.object({ limit: z.coerce.number().int().min(1).max(1_000).default(100) }),
    response: z.object({ changes: z.array(SettingChangeView) }),
  }),
}

export const keyRoutes = {
  list: route({
    method: 'GET',
    path: '/api/keys',
    access: 'admin',
    summary: 'List keys, without their secrets',
    response: z.object({ keys: z.array(KeyView) }),
  }),
  create: route({
    method: 'POST',
    path: '/api/keys',
    access: 'admin',
    summary: 'Create a key, which is shown once; or store a key of your own by its hash',
    body: z.strictObject({
      name: plainText(255).min(1),
      scope: Scope,
      /** Identifies a secret that clients already have, which is never sent. */
      secret_hash: z
        .string()
        .regex(/^[0-9a-f]{64}$/, 'a secret_hash is the SHA-256 of the secret: 64 lower-case hex digits')
        .optional(),
    }),
    /** `key` is null when the secret was given by its hash. */
    response: KeyView.extend({ key: z.string().nullable() }),
    status: 201,
    /** A key with this hash exists; it keeps its name and its scope. */
    otherStatus: 200,
  }),
  remove: route({
    method: 'DELETE',
    path: '/api/keys/:id',
    access: 'admin',
    summary: 'Revoke a key',
    params: z.object({ id: z.string().regex(/^[a-z0-9-]{1,64}$/, 'a key id is 1–64 characters of a–z, 0–9 and -') }),
    status: 204,
  }),
}

export const loginRoutes = {
  createLink: route({
    method: 'POST',
    path: '/api/login-links',
    access: 'admin',
    summary: 'Create a link that logs a browser in, once',
    response: z.object({ url: z.string(), expires_at: z.string() }),
    status: 201,
  }),
  login: route({
    method: 'GET',
    path: '/login',
    access: 'open',
    summary: 'Exchange the link for a cookie',
    query: z.object({ token: z.string('the token is missing; run "muster login-link" for a new link').max(256) }),
    produces: 'text/html',
  }),
  loginByKey: route({
    method: 'POST',
    path: '/api/login',
    access: 'open',
    summary: 'Exchange an admin key for a cookie, valid for seven days or until the key is revoked',
    body: z.strictObject({ key: z.string('the key is missing').trim().min(1, 'the key is missing').max(512) }),
    status: 204,
  }),
  logout: route({ method: 'POST', path: '/api/logout', access: 'read', summary: 'Log out: delete the cookie', status: 204 }),
}
