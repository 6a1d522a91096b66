// Commands about the models of a node.
import { z } from 'zod'
import { BackendName, Digest, ModelName, NodeId, OperationId, ReplicaId, storableText } from '../ids.ts'
import { CommandReply } from './backend.ts'
import { command } from './define.ts'

const params = { node: NodeId }

/** A path inside the model's own folder: not absolute, no `..`, no empty part. */
export const ModelFileName = z
  .string()
  .min(1)
  .max(1024)
  .regex(
    /^(?!.*(?:^|\/)\.{1,2}(?:\/|$))(?!.*\/\/)[^/\\\p{C}][^\\\p{C}]*(?<!\/)$/u,
    'a file name is a path inside the model’s folder: no leading /, no . or .. parts, no backslash',
  )
export type ModelFileName = z.infer<typeof ModelFileName>

export const ModelFile = z.object({
  uri: z.string().max(2048),
  filename: z.string().min(1).max(1024),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  size: z.number().int().min(0).optional(),
  /** An archive, which is unpacked in its folder after it was verified. */
  unpack: z.boolean().optional(),
  /** Workers that have the same content, tried before `uri`: the URL at their gateway, and a token for this file only. */
  peers: z
    .array(z.object({ url: z.string().max(512), authorization: z.string().max(512) }))
    .max(16)
    .optional(),
})
export type ModelFile = z.infer<typeof ModelFile>

export const LoadModel = z.object({
  model: ModelName,
  revision: z.string().max(128),
  replica_id: ReplicaId,
  backend: BackendName,
  digest: Digest.optional(),
  config: z.record(z.string(), z.unknown()),
  files: z.array(ModelFile).max(1024),
  op_id: OperationId.optional(),
  epoch: z.number().int().min(0).optional(),
  /** Distinguishes the processes of the model on this node; two processes never share a slot. */
  slot: z.number().int().min(0).max(65_535).optional(),
  /** Fetch and verify the files without starting a process; ends with `op.result`. */
  stage_only: z.boolean().optional(),
})
export type LoadModel = z.infer<typeof LoadModel>

export const ReplicaState = z.enum(['starting', 'ready', 'draining', 'exited'])
export type ReplicaState = z.infer<typeof ReplicaState>

export const RunningModels = z.object({
  replicas: z
    .array(
      z.object({
        replica_id: ReplicaId,
        model: ModelName,
        revision: z.string().max(128),
        state: ReplicaState,
        in_flight: z.number().int().min(0),
      }),
    )
    .max(4096),
})
export type RunningModels = z.infer<typeof RunningModels>

export const modelLoad = command({ subject: 'nodes.{node}.model.load', params, request: LoadModel, reply: CommandReply })
export const modelUnload = command({
  subject: 'nodes.{node}.model.unload',
  params,
  request: z.object({ replica_id: ReplicaId, force: z.boolean().optional(), reason: storableText(256).optional() }),
  reply: CommandReply,
})
export const modelDelete = command({
  subject: 'nodes.{node}.model.delete',
  params,
  request: z.object({ model: ModelName }),
  reply: CommandReply,
})
export const modelsRunning = command({ subject: 'nodes.{node}.models.running', params, request: z.object({}), reply: RunningModels })
