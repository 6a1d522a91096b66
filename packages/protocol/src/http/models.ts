// /api/models: models, their configuration, and their replicas.
import { z } from 'zod'
import { FailureCode } from '../failure.ts'
import { BackendName, ModelName, NodeId, OperationId, plainText, ReplicaId, storableText } from '../ids.ts'
import { ModelFileName, ReplicaState } from '../messages/model.ts'
import { route } from './define.ts'
import { LeftOut } from './galleries.ts'
import { PlacementView } from './placement.ts'
import { Selector } from './selector.ts'

/** The source of a model file. `upload:` is content sent to `PUT …/files/:filename`, by its digest. */
export const ModelFileUri = z
  .string()
  .max(2048)
  .regex(
    /^(?:https?:\/\/|hf:\/\/|oci:\/\/|s3:\/\/|file:\/\/|builtin:\/\/|upload:sha256:[0-9a-f]{64}$)[\x21-\x7e]*$/,
    'a file is at https://…, hf://owner/repo/file, oci://…, s3://bucket/key or file:///…',
  )

export const ConfigFile = z.strictObject({
  uri: ModelFileUri,
  filename: ModelFileName,
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'a sha256 is 64 lower-case hex digits')
    .optional(),
  /** An archive, which is unpacked in its folder after it was verified. */
  unpack: z.boolean().optional(),
})
export type ConfigFile = z.infer<typeof ConfigFile>

export const Policy = z.enum(['prefix', 'least'])
export type Policy = z.infer<typeof Policy>

export const Scheduling = z
  .strictObject({
    node_selector: Selector.optional(),
    min_replicas: z.number().int().min(0).max(1024).optional(),
    /** 0: no limit. */
    max_replicas: z.number().int().min(0).max(1024).optional(),
    replicas: z.literal('all').optional(),
    priority: z.number().int().min(-1_000_000).max(1_000_000).optional(),
    policy: Policy.optional(),
    /** True: no replica runs, and requests are answered 403 `model_disabled`. */
    disabled: z.boolean().optional(),
  })
  .refine((s) => s.replicas === undefined || (s.min_replicas === undefined && s.max_replicas === undefined), {
    message: 'replicas: all excludes min_replicas and max_replicas',
  })
  .refine((s) => (s.max_replicas ?? 1) === 0 || (s.min_replicas ?? 0) <= (s.max_replicas ?? Math.max(1, s.min_replicas ?? 0)), {
    message: 'min_replicas is greater than max_replicas',
  })
export type Scheduling = z.infer<typeof Scheduling>

/** Go templates of prompts, for engines that do not use the template of the model. */
const templateText = z.string().max(262_144)
export const TemplateConfig = z.strictObject({
  chat: templateText.optional(),
  chat_message: templateText.optional(),
  function: templateText.optional(),
  completion: templateText.optional(),
  edit: templateText.optional(),
  multimodal: templateText.optional(),
  join_chat_messages_by_character: z.string().max(256).optional(),
  use_tokenizer_template: z.boolean().optional(),
  reply_prefix: z.string().max(65_536).optional(),
})
export type TemplateConfig = z.infer<typeof TemplateConfig>

/** How tool calls are read out of the text of such an engine. */
const expressions = z.array(z.string().max(4096)).max(64)
const replacements = z.array(z.strictObject({ key: z.string().max(4096), value: z.string().max(4096) })).max(64)
export const FunctionConfig = z.strictObject({
  response_regex: expressions.optional(),
  json_regex_match: expressions.optional(),
  argument_regex: expressions.optional(),
  argument_regex_key_name: z.string().max(256).optional(),
  argument_regex_value_name: z.string().max(256).optional(),
  replace_function_results: replacements.optional(),
  replace_llm_results: replacements.optional(),
  capture_llm_results: expressions.optional(),
  grammar: z
    .strictObject({
      triggers: z
        .array(z.strictObject({ word: z.string().max(256) }))
        .max(64)
        .optional(),
    })
    .optional(),
})
export type FunctionConfig = z.infer<typeof FunctionConfig>

/** By name, or as a list that is sent to the backend unchanged and in its order. */
const Options = z.union([z.record(z.string().max(256), z.json()), z.array(z.string().max(8192)).max(1024)], {
  error: 'options are a mapping of names and values, or a list of at most 1,024 texts',
})

/** As in the file, without defaults. */
export const ModelConfig = z.strictObject({
  name: ModelName,
  backend: BackendName,
  description: plainText(4096).optional(),
  parameters: z.looseObject({ model: ModelFileName.optional() }).default({}),
  /** In tokens; -1: the length that the model was trained with. */
  context_size: z
    .number()
    .int()
    .min(-1)
    .max(16_777_216)
    .refine((size) => size !== 0, 'a context has at least one token; -1 is the length that the model was trained with')
    .optional(),
  files: z.array(ConfigFile).max(1024).default([]),
  options: Options.default({}),
  template: TemplateConfig.optional(),
  roles: z.record(z.string().max(64), z.string().max(4096)).optional(),
  function: FunctionConfig.optional(),
  known_usecases: z.array(plainText(64)).max(64).default([]),
  scheduling: Scheduling.default({}),
})
export type ModelConfig = z.infer<typeof ModelConfig>

export const ModelState = z.enum(['unloaded', 'pending', 'installing', 'staging', 'loading', 'ready', 'failed'])
export type ModelState = z.infer<typeof ModelState>

export const LoadFailure = z.object({
  code: FailureCode,
  message: storableText(8192),
  at: z.string(),
  /** Null: no automatic retry; `load` or a new revision starts it again. */
  next_retry_at: z.string().nullable(),
  attempts: z.number(),
})
export type LoadFailure = z.infer<typeof LoadFailure>

export const ModelView = z.object({
  name: ModelName,
  backend: z.string(),
  revision: z.string(),
  config: ModelConfig,
  state: ModelState,
  replicas_ready: z.number(),
  replicas_desired: z.number(),
  failure: LoadFailure.nullable(),
})
export type ModelView = z.infer<typeof ModelView>

export const ModelDetail = ModelView.extend({
  /** The newest replica that became ready, now or before; null: never loaded. */
  last_loaded: z.object({ at: z.string(), backend: z.string(), revision: z.string(), options: z.unknown() }).nullable().optional(),
})
export type ModelDetail = z.infer<typeof ModelDetail>

/** Progress of a cold model, for a request that waits for it. */
export const Loading = z.object({
  model: z.string(),
  state: ModelState,
  node: z.string().nullable(),
  progress: z.number(),
  current_bytes: z.number(),
  total_bytes: z.number(),
  /** Left out rather than guessed. */
  eta_seconds: z.number().optional(),
})
export type Loading = z.infer<typeof Loading>

export const ReplicaView = z.object({
  id: ReplicaId,
  model: z.string(),
  revision: z.string(),
  node_id: NodeId,
  node_name: z.string(),
  state: ReplicaState,
  /** Its node is healthy or drained, and was heard lately. */
  reachable: z.boolean(),
  backend_digest: z.string().nullable(),
  in_flight: z.number(),
  started_at: z.string(),
  /** Set for an exited one. */
  exited_at: z.string().nullable().optional(),
  /** The last heartbeat of its node, when that is too long ago: the replica may have exited since. Null: its state is known. */
  unknown_since: z.string().nullable().optional(),
  /** Its requests failed, so the controller that answers sends them to other replicas. Null: it gets requests. */
  out_of_rotation: z.object({ since: z.string(), reason: z.string() }).nullable().optional(),
})
export type ReplicaView = z.infer<typeof ReplicaView>

/** A configuration in LocalAI's keys. */
const Foreign = z.record(z.string(), z.unknown())

export const ModelGalleryEntry = z.object({
  name: ModelName,
  description: z.string().max(8192).default(''),
  license: z.string().max(256).default(''),
  icon: z.string().max(2048).default(''),
  tags: z.array(z.string().max(128)).max(256).default([]),
  urls: z.array(z.string().max(4096)).max(256).default([]),
  files: z.array(ConfigFile).max(1024).default([]),
  config: z.record(z.string(), z.unknown()).default({}),
  /** Set for an entry in LocalAI's format, whose `config` is empty: the overrides are merged over the file at `base`, or over `config`. */
  localai: z
    .object({ base: z.string().max(2048).nullable(), config: Foreign, overrides: Foreign })
    .nullable()
    .default(null),
  /** Names of entries that are other builds of the same model. */
  variants: z.array(ModelName).max(256).default([]),
  /** The stated size of all files. */
  size_bytes: z.number().int().min(0).nullable().default(null),
})
export type ModelGalleryEntry = z.infer<typeof ModelGalleryEntry>

export const OfferedVariant = z.object({
  name: z.string(),
  backend: z.string(),
  size_bytes: z.number().nullable(),
  /** True for the one that an install without `variant` takes now. */
  chosen: z.boolean(),
  /** Why it is chosen, or not. */
  reason: z.string(),
})
export type OfferedVariant = z.infer<typeof OfferedVariant>

export const OfferedModel = ModelGalleryEntry.omit({ config: true, files: true, localai: true, variants: true }).extend({
  gallery: z.string(),
  /** Empty while the file that names it was not read. */
  backend: z.string(),
  installed: z.boolean(),
  /** The builds to choose from, the entry itself first; empty when there is only one. */
  variants: z.array(OfferedVariant).default([]),
})
export type OfferedModel = z.infer<typeof OfferedModel>

export const ConfigProblem = z.object({
  message: z.string(),
  line: z.number().optional(),
  key: z.string().optional(),
  /** The known key that is closest to an unknown one. */
  closest: z.string().optional(),
})
export type ConfigProblem = z.infer<typeof ConfigProblem>

/** The fate of one key of a LocalAI configuration. */
export const ConvertedKeyView = z.object({
  /** Dotted path in the LocalAI configuration. */
  key: z.string(),
  outcome: z.enum(['mapped', 'carried', 'no_effect', 'refused']),
  /** The key of Muster that it became. */
  to: z.string().nullable(),
  message: z.string(),
})
export type ConvertedKeyView = z.infer<typeof ConvertedKeyView>

/** The model that an install would store. */
export const ModelInstallPreview = z.object({
  config: ModelConfig,
  keys: z.array(ConvertedKeyView),
  /** Null for an entry without other builds. */
  variant: z
    .object({ chosen: z.string(), reason: z.string(), all: z.array(z.object({ name: z.string(), reason: z.string() })) })
    .nullable(),
})
export type ModelInstallPreview = z.infer<typeof ModelInstallPreview>

/** `3 mapped, 2 carried, 1 without effect: usage`. */
export function summarizeConversion(keys: readonly ConvertedKeyView[]): string {
  const of = (outcome: ConvertedKeyView['outcome']): string[] => keys.filter((key) => key.outcome === outcome).map(({ key }) => key)
  const named = (found: readonly string[], label: string): string =>
    found.length === 0 ? '' : `, ${found.length} ${label}: ${found.join(', ')}`
  const counts = `${of('mapped').length} mapped, ${of('carried').length} carried`
  return `${counts}${named(of('no_effect'), 'without effect')}${named(of('refused'), 'refused')}`
}

/** `keys`: only for a LocalAI configuration, which was converted. */
export const ValidatedConfig = z.discriminatedUnion('valid', [
  z.object({ valid: z.literal(true), revision: z.string(), config: ModelConfig, keys: z.array(ConvertedKeyView).optional() }),
  z.object({ valid: z.literal(false), problems: z.array(ConfigProblem), keys: z.array(ConvertedKeyView).optional() }),
])
export type ValidatedConfig = z.infer<typeof ValidatedConfig>

/** `localai`: converts also a configuration without any key that only LocalAI has. */
const ConfigOrigin = z.enum(['localai'])
const params = z.object({ name: ModelName })
/** Without it, the whole model. */
const onNode = z.strictObject({ node_id: NodeId.optional() })
const accepted = z.object({ operation_id: OperationId })

export const modelRoutes = {
  list: route({
    method: 'GET',
    path: '/api/models',
    access: 'read',
    summary: 'List models, with the number of ready replicas',
    response: z.object({ models: z.array(ModelView) }),
  }),
  gallery: route({
    method: 'GET',
    path: '/api/models/gallery',
    access: 'read',
    summary: 'List the models of all galleries',
    response: z.object({
      models: z.array(OfferedModel),
      problems: z.array(z.object({ gallery: z.string(), message: z.string() })),
      left_out: z.array(LeftOut).default([]),
    }),
  }),
  install: route({
    method: 'POST',
    path: '/api/models/install',
    access: 'admin',
    summary: 'Install a model from a gallery: its configuration and its files',
    body: z.strictObject({
      /** A name, or `gallery@name` for the entry of one gallery. */
      model: ModelName,
      /** The name of the model here, instead of the entry's. */
      name: ModelName.optional(),
      /** The build to take, instead of the one that suits the fleet. */
      variant: ModelName.optional(),
      /** Merged over the configuration of the entry, in its format. */
      overrides: z.record(z.string().max(256), z.json()).optional(),
      /** Beside the files of the entry; one of the same name replaces it. */
      files: z.array(ConfigFile).max(1024).optional(),
      dry_run: z.boolean().optional(),
    }),
    /** A dry run answers with the plan. */
    response: z.union([accepted, ModelInstallPreview]),
    status: 202,
    otherStatus: 200,
  }),
  validate: route({
    method: 'POST',
    path: '/api/models/validate',
    access: 'read',
    summary: 'Validate a configuration (JSON or YAML, also of LocalAI) without storing it',
    /** The name in the path of the PUT; without it the text must contain the name. */
    query: z.object({ name: ModelName.optional(), from: ConfigOrigin.optional() }),
    response: ValidatedConfig,
  }),
  get: route({
    method: 'GET',
    path: '/api/models/:name',
    access: 'read',
    summary: 'Get a model, with the parameters of its last load',
    params,
    response: ModelDetail,
  }),
  put: route({
    method: 'PUT',
    path: '/api/models/:name',
    access: 'admin',
    summary: 'Create or change a model (JSON or YAML, also of LocalAI); If-Match names the expected revision',
    params,
    query: z.object({ from: ConfigOrigin.optional() }),
    response: ModelView.extend({ keys: z.array(ConvertedKeyView).optional() }),
    otherStatus: 201,
  }),
  remove: route({
    method: 'DELETE',
    path: '/api/models/:name',
    access: 'admin',
    summary:
      'Delete a model: its configuration at once, then its replicas and files on all nodes; with `node`, replicas and files on that node only',
    params,
    query: z.object({ node: NodeId.optional() }),
    response: accepted,
    status: 202,
  }),
  load: route({
    method: 'POST',
    path: '/api/models/:name/load',
    access: 'admin',
    summary: 'Load a model: at least max(1, min_replicas) replicas; with `node_id`, a replica on that node',
    params,
    body: onNode,
    response: accepted,
    status: 202,
  }),
  unload: route({
    method: 'POST',
    path: '/api/models/:name/unload',
    access: 'admin',
    summary: 'Unload a model: drain all replicas and keep it unloaded; with `node_id`, on that node only',
    params,
    body: onNode,
    response: accepted,
    status: 202,
  }),
  prefetch: route({
    method: 'POST',
    path: '/api/models/:name/prefetch',
    access: 'admin',
    summary: 'Fetch the files of a model to nodes without starting it; all nodes that the model may run on by default',
    params,
    body: z
      .strictObject({
        nodes: z.array(NodeId).min(1, 'nodes is a list of node ids, or left out for all').max(10_000).optional(),
        selector: Selector.optional(),
      })
      .refine((body) => body.nodes === undefined || body.selector === undefined, { message: 'name nodes or a selector, not both' }),
    response: accepted,
    status: 202,
  }),
  scheduling: route({
    method: 'PUT',
    path: '/api/models/:name/scheduling',
    access: 'admin',
    summary: 'Change the scheduling of a model, without a restart',
    params,
    body: Scheduling,
    response: ModelView,
  }),
  upload: route({
    method: 'PUT',
    path: '/api/models/:name/files/:filename',
    access: 'admin',
    summary: 'Upload a file of a model; stored on workers by its digest',
    params: z.object({ name: ModelName, filename: ModelFileName }),
    response: z.object({ filename: z.string(), digest: z.string(), size: z.number(), nodes: z.array(NodeId) }),
  }),
  loadStatus: route({
    method: 'GET',
    path: '/api/models/:name/load-status',
    access: 'read',
    summary: 'Get the loading progress of a model',
    params,
    response: Loading.extend({ failure: LoadFailure.nullable() }),
  }),
  replicas: route({
    method: 'GET',
    path: '/api/models/:name/replicas',
    access: 'read',
    summary: 'List the replicas of a model',
    params,
    response: z.object({ replicas: z.array(ReplicaView) }),
  }),
  placement: route({
    method: 'GET',
    path: '/api/models/:name/placement',
    access: 'read',
    summary: 'Rate all nodes for the next replica, with the reason for each excluded node',
    params,
    response: PlacementView,
  }),
  placementPreview: route({
    method: 'POST',
    path: '/api/models/:name/placement',
    access: 'read',
    summary: 'Preview the placement with another scheduling; nothing is stored',
    params,
    body: z.strictObject({ scheduling: Scheduling }),
    response: PlacementView,
  }),
}
