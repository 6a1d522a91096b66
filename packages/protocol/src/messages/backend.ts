// Commands about the backends of a node.
import { z } from 'zod'
import { Failure } from '../failure.ts'
import { BackendName, Digest, ModelName, NodeId, OperationId, plainText, storableText } from '../ids.ts'
import { command, topic } from './define.ts'
import { GgufFacts } from './gguf.ts'

const params = { node: NodeId }
const generation = z.number().int().min(0)

/** With `async` the answer means accepted; without it the answer comes when the work is done. */
export const CommandReply = z.union([
  z.object({ accepted: z.literal(true) }),
  z.object({ accepted: z.literal(false), failure: Failure }),
  z.object({ success: z.boolean(), error: storableText(8192).optional(), address: z.string().max(1024).optional() }),
])
export type CommandReply = z.infer<typeof CommandReply>

const identified = {
  op_id: OperationId.optional(),
  generation: generation.optional(),
  epoch: generation.optional(),
  async: z.boolean().optional(),
}
const sourced = {
  backend: BackendName,
  uri: z.string().max(2048).optional(),
  digest: Digest.optional(),
  name: BackendName.optional(),
  alias: BackendName.optional(),
  /** Other URIs of the same content, tried when `uri` does not answer. */
  mirrors: z.array(z.string().max(2048)).max(64).optional(),
  /** The version in the gallery; many artifacts lack one. */
  version: plainText(256).optional(),
  gallery_url: plainText(2048).optional(),
}

export const InstallBackend = z.object({
  ...sourced,
  ...identified,
  exact: z.boolean().optional(),
  model_id: ModelName.optional(),
  replica_index: z.number().int().min(0).max(4096).optional(),
  /** JSON text of galleries, as LocalAI sends it. Honored only with `--accept-wire-galleries`. */
  backend_galleries: z.string().max(262_144).optional(),
  force: z.boolean().optional(),
})
export type InstallBackend = z.infer<typeof InstallBackend>

export const UpgradeBackend = z.object({ ...sourced, ...identified, strategy: z.enum(['rolling', 'recreate']).optional() })
export type UpgradeBackend = z.infer<typeof UpgradeBackend>

export const DeleteBackend = z.object({ backend: BackendName, ...identified })
export type DeleteBackend = z.infer<typeof DeleteBackend>

export const InstalledBackend = z.object({
  name: BackendName,
  is_system: z.boolean().default(false),
  is_meta: z.boolean().default(false),
  installed_at: plainText(64).default(''),
  gallery_url: plainText(2048).default(''),
  version: plainText(256).default(''),
  uri: plainText(2048).default(''),
  digest: plainText(128).default(''),
  /** Files are missing or changed: no process can be started from it until an install or an upgrade repairs it. */
  damaged: z.boolean().optional(),
})
export type InstalledBackend = z.infer<typeof InstalledBackend>

/** Content of a model file on a node, complete and verified. */
export const StoredFile = z.object({ digest: Digest, size: z.number().int().min(0) })
export type StoredFile = z.infer<typeof StoredFile>

/** The header of a stored GGUF file. */
export const StoredFacts = z.object({ digest: Digest, facts: GgufFacts })
export type StoredFacts = z.infer<typeof StoredFacts>

/** The content of a model's file under its name: for files that the configuration names without a hash. */
export const NamedFile = z.object({
  model: ModelName,
  filename: z.string().min(1).max(1024),
  digest: Digest,
  size: z.number().int().min(0),
})
export type NamedFile = z.infer<typeof NamedFile>

export const BackendList = z.object({
  /** LocalAI sends null for an empty list, and for one that it could not read. */
  backends: z
    .array(InstalledBackend)
    .max(4096)
    .nullable()
    .transform((list) => list ?? []),
  /** The highest generation of each backend whose work has ended, read before the list, so the list is no older. */
  generations: z.record(BackendName, generation).optional(),
  /** Content of model files on the node, complete and verified. */
  files: z.array(StoredFile).max(65_536).optional(),
  /** Headers of the largest of these files. */
  file_facts: z.array(StoredFacts).max(1_024).optional().catch(undefined),
  /** Names of files in the newest revision of each model. */
  named_files: z.array(NamedFile).max(4_096).optional().catch(undefined),
  error: z.string().max(8192).optional(),
})
export type BackendList = z.infer<typeof BackendList>

export const backendInstall = command({ subject: 'nodes.{node}.backend.install', params, request: InstallBackend, reply: CommandReply })
export const backendUpgrade = command({ subject: 'nodes.{node}.backend.upgrade', params, request: UpgradeBackend, reply: CommandReply })
export const backendDelete = command({ subject: 'nodes.{node}.backend.delete', params, request: DeleteBackend, reply: CommandReply })
export const backendList = command({ subject: 'nodes.{node}.backend.list', params, request: z.object({}), reply: BackendList })
export const backendStop = topic({
  subject: 'nodes.{node}.backend.stop',
  params,
  message: z.object({ backend: BackendName.optional(), force: z.boolean().optional() }),
})
