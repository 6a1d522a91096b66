// Routes for scripts that were written for LocalAI, with LocalAI's paths, fields and answers. Each one is a thin layer over a route of
// Muster. Bodies are loose: fields that have no effect are ignored, as LocalAI does.
import { z } from 'zod'
import { BackendName, ModelName, OperationId } from '../ids.ts'
import { type Access, type Method, route } from './define.ts'
import { UpgradeView } from './backends.ts'

/** One entry of `/models/jobs`: an operation. `processed`: it has finished. */
export const LocalAiJob = z.object({
  deletion: z.boolean(),
  file_name: z.string(),
  error: z.string().optional(),
  processed: z.boolean(),
  message: z.string(),
  progress: z.number(),
  phase: z.string().optional(),
  current_bytes: z.number().optional(),
  total_bytes: z.number().optional(),
  file_size: z.string(),
  downloaded_size: z.string(),
  gallery_element_name: z.string(),
  cancelled: z.boolean(),
  cancellable: z.boolean(),
  nodes: z.array(z.object({ node_id: z.string(), node_name: z.string(), status: z.string(), error: z.string().optional() })).optional(),
})
export type LocalAiJob = z.infer<typeof LocalAiJob>

const LocalAiGallery = z.object({ url: z.string(), name: z.string(), mirrors: z.array(z.string()) })
export type LocalAiGallery = z.infer<typeof LocalAiGallery>

const entry = {
  name: z.string(),
  description: z.string(),
  license: z.string(),
  icon: z.string(),
  tags: z.array(z.string()),
  urls: z.array(z.string()),
  gallery: LocalAiGallery,
  installed: z.boolean(),
}
export const LocalAiModel = z.object({ ...entry, backend: z.string() })
export type LocalAiModel = z.infer<typeof LocalAiModel>

export const LocalAiBackend = z.object({
  Name: z.string(),
  RunFile: z.string(),
  IsMeta: z.boolean(),
  IsSystem: z.boolean(),
  Metadata: z.object({
    alias: z.string(),
    meta_backend_for: z.string(),
    name: z.string(),
    gallery_url: z.string(),
    installed_at: z.string(),
    version: z.string(),
    uri: z.string(),
    digest: z.string(),
  }),
  upgrade_available: z.boolean(),
  available_version: z.string().optional(),
  nodes: z.array(
    z.object({
      node_id: z.string(),
      node_name: z.string(),
      node_status: z.string(),
      version: z.string(),
      digest: z.string(),
      uri: z.string(),
      installed_at: z.string(),
    }),
  ),
})
export type LocalAiBackend = z.infer<typeof LocalAiBackend>

/** The answer of routes that change the configuration of a model. */
export const LocalAiEdit = z.object({
  success: z.boolean(),
  message: z.string(),
  filename: z.string().optional(),
  config: z.unknown().optional(),
  config_revision: z.string().optional(),
  error: z.string().optional(),
  pending_cleanup: z.boolean(),
})
export type LocalAiEdit = z.infer<typeof LocalAiEdit>

export const ModelCapabilities = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.number(),
  owned_by: z.string(),
  capabilities: z.array(z.string()),
  input_modalities: z.array(z.string()),
  output_modalities: z.array(z.string()),
})
export type ModelCapabilities = z.infer<typeof ModelCapabilities>

/** `name` installs under another name; `url` and `config_url` name a configuration file instead of an entry. */
export const LocalAiApply = z.looseObject({
  id: z.string().max(512).optional(),
  url: z.string().max(2048).optional(),
  config_url: z.string().max(2048).optional(),
  name: z.string().max(256).optional(),
  variant: z.string().max(256).optional(),
  overrides: z.record(z.string(), z.unknown()).optional(),
  files: z.array(z.unknown()).max(1024).optional(),
})
export type LocalAiApply = z.infer<typeof LocalAiApply>

export const LocalAiImport = z.looseObject({
  uri: z.string().min(1, 'uri names the file to import').max(2048),
  preferences: z
    .looseObject({
      backend: z.string().max(128).optional(),
      name: z.string().max(200).optional(),
      description: z.string().max(4096).optional(),
    })
    .nullish(),
})
export type LocalAiImport = z.infer<typeof LocalAiImport>

/** Several backends could serve the file: answered with 400, so that the caller chooses one. */
export const AmbiguousImport = z.object({
  error: z.literal('ambiguous import'),
  detail: z.string(),
  modality: z.string(),
  candidates: z.array(z.string()),
  hint: z.string(),
})
export type AmbiguousImport = z.infer<typeof AmbiguousImport>

const modelJob = z.object({ uuid: OperationId, status: z.string() })
const backendJob = z.object({ id: OperationId, status_url: z.string() })
const anyBody = z.looseObject({})
const modelBody = z.looseObject({ model: ModelName })
const modelParams = z.object({ name: ModelName })
const backendParams = z.object({ name: BackendName })
const jobParams = z.object({ uuid: OperationId })
/** The text of a configuration, which the handler reads. */
const edit = { response: LocalAiEdit }

const localAi = <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  [method, path, access, summary]: readonly [Method, string, Access, string],
  parts: { params?: P; query?: Q; body?: B; response?: R },
) => route({ method, path, access, summary, dialect: 'localai', ...parts })

const monitor = (path: string) =>
  localAi(['GET', path, 'read', 'LocalAI: state of the process of a model; the model is in the query or in a JSON body'], {
    query: z.object({ model: ModelName.optional() }),
    body: z.looseObject({ model: ModelName.optional() }),
    response: z.object({ state: z.number().optional() }),
  })
const shutdown = (path: string) =>
  localAi(['POST', path, 'admin', 'LocalAI: unload a model'], { body: modelBody, response: z.object({ message: z.string() }) })
const job = (path: string, of: string) =>
  localAi(['GET', path, 'read', `LocalAI: progress of a change of a ${of}; the job is the operation of that ID`], {
    params: jobParams,
    response: LocalAiJob,
  })

export const localAiModelRoutes = {
  apply: localAi(['POST', '/models/apply', 'admin', 'LocalAI: install a model of a gallery'], { body: LocalAiApply, response: modelJob }),
  jobs: localAi(['GET', '/models/jobs', 'read', 'LocalAI: progress of all operations, by ID'], {
    response: z.record(z.string(), LocalAiJob),
  }),
  job: job('/models/jobs/:uuid', 'model'),
  remove: localAi(['POST', '/models/delete/:name', 'admin', 'LocalAI: delete a model'], {
    params: modelParams,
    body: anyBody,
    response: modelJob,
  }),
  available: localAi(['GET', '/models/available', 'read', 'LocalAI: list the models of all galleries'], {
    response: z.array(LocalAiModel),
  }),
  galleries: localAi(['GET', '/models/galleries', 'read', 'LocalAI: list the galleries of models'], { response: z.array(LocalAiGallery) }),
  import: localAi(['POST', '/models/import', 'admin', 'LocalAI: create a model from its configuration (YAML or JSON)'], edit),
  importUri: localAi(['POST', '/models/import-uri', 'admin', 'LocalAI: create a model from the URI of its file, and fetch the file'], {
    body: LocalAiImport,
    response: z.union([modelJob, AmbiguousImport]),
  }),
  edit: localAi(['POST', '/models/edit/:name', 'admin', 'LocalAI: replace the configuration of a model (YAML or JSON)'], {
    params: modelParams,
    ...edit,
  }),
  reload: localAi(['POST', '/models/reload', 'admin', 'LocalAI: nothing to do, because configurations are not read from files'], {
    body: anyBody,
    ...edit,
  }),
  toggleState: localAi(
    ['PUT', '/models/toggle-state/:name/:action', 'admin', 'LocalAI: enable a model, or disable it: it is unloaded and refuses requests'],
    {
      params: z.object({ name: ModelName, action: z.enum(['enable', 'disable']) }),
      body: anyBody,
      ...edit,
    },
  ),
  togglePinned: localAi(['PUT', '/models/toggle-pinned/:name/:action', 'admin', 'LocalAI: pin keeps one replica of a model loaded'], {
    params: z.object({ name: ModelName, action: z.enum(['pin', 'unpin']) }),
    body: anyBody,
    ...edit,
  }),
}

export const localAiBackendRoutes = {
  list: localAi(['GET', '/backends', 'read', 'LocalAI: list installed backends'], { response: z.array(LocalAiBackend) }),
  available: localAi(['GET', '/backends/available', 'read', 'LocalAI: list the backends of all galleries'], {
    response: z.array(z.object({ ...entry, version: z.string() })),
  }),
  galleries: localAi(['GET', '/backends/galleries', 'read', 'LocalAI: list the galleries of backends'], {
    response: z.array(LocalAiGallery),
  }),
  known: localAi(['GET', '/backends/known', 'read', 'LocalAI: list the backends that models can name'], {
    response: z.array(
      z.object({ name: z.string(), modality: z.string(), auto_detect: z.boolean(), description: z.string(), installed: z.boolean() }),
    ),
  }),
  apply: localAi(['POST', '/backends/apply', 'admin', 'LocalAI: install a backend of a gallery on all nodes that it fits'], {
    body: z.looseObject({ id: z.string().max(256), force: z.boolean().optional() }),
    response: backendJob,
  }),
  remove: localAi(['POST', '/backends/delete/:name', 'admin', 'LocalAI: delete a backend from all nodes'], {
    params: backendParams,
    body: anyBody,
    response: backendJob,
  }),
  upgrade: localAi(['POST', '/backends/upgrade/:name', 'admin', 'LocalAI: upgrade a backend where it is installed'], {
    params: backendParams,
    body: anyBody,
    response: backendJob,
  }),
  job: job('/backends/jobs/:uuid', 'backend'),
  upgrades: localAi(['GET', '/backends/upgrades', 'read', 'LocalAI: backends with a newer build, by name'], {
    response: z.record(z.string(), UpgradeView.extend({ backend_name: z.string() })),
  }),
  check: localAi(['POST', '/backends/upgrades/check', 'admin', 'LocalAI: check galleries and registries for updates now'], {
    body: anyBody,
    response: z.record(z.string(), UpgradeView.extend({ backend_name: z.string() })),
  }),
}

export const localAiSystemRoutes = {
  system: localAi(['GET', '/system', 'read', 'LocalAI: installed backends and loaded models'], {
    response: z.object({
      backends: z.array(z.string()),
      loaded_models: z.array(z.object({ id: z.string(), backend: z.string() })),
    }),
  }),
  monitor: monitor('/backend/monitor'),
  monitorV1: monitor('/v1/backend/monitor'),
  shutdown: shutdown('/backend/shutdown'),
  shutdownV1: shutdown('/v1/backend/shutdown'),
  load: localAi(['POST', '/backend/load', 'admin', 'LocalAI: load a model, and wait until it serves'], {
    body: modelBody,
    response: z.object({ loaded: z.array(z.string()), message: z.string() }),
  }),
  capabilities: localAi(['GET', '/v1/models/capabilities', 'inference', 'LocalAI: list models with their use cases and modalities'], {
    response: z.object({ object: z.literal('list'), data: z.array(ModelCapabilities) }),
  }),
}
