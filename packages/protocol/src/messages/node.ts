// Messages about a node and its operations: heartbeat, events, the stop command, progress, status and cancel.
import { z } from 'zod'
import { Failure } from '../failure.ts'
import { BackendName, Digest, Incarnation, ModelName, NodeId, OperationId, plainText, ReplicaId, storableText } from '../ids.ts'
import { BackendList } from './backend.ts'
import { command, topic } from './define.ts'
import { ReplicaState } from './model.ts'

// Numbers come from other machines: an implausible one becomes unknown (null), never zero and never infinite.
/** 1 PiB: more memory or disk than any node has. */
const maxBytes = 2 ** 50
const bytes = z.number().int().min(0).max(maxBytes).nullable().catch(null).default(null)

/** The part of a node's GPU memory that models may use. */
export const VramBudget = z
  .string()
  .regex(/^(?:100|[1-9]?\d)%$|^\d{1,7}(?:\.\d{1,9})?\s?(?:[KMGT]i?B|B)$/i, 'a budget is a percentage (80%) or a size (12GB)')
export const MaxReplicasPerModel = z.number().int().min(1, 'the least number is 1').max(65_536, 'the greatest number is 65536')

/** A process that has memory of a GPU. */
export const GpuProcess = z.object({
  pid: z
    .number()
    .int()
    .min(1)
    .max(2 ** 31),
  bytes,
  name: plainText(128).catch('').default(''),
  /** The replica that it belongs to; left out: another program. */
  replica_id: ReplicaId.optional().catch(undefined),
})
export type GpuProcess = z.infer<typeof GpuProcess>

export const GpuCard = z.object({
  index: z.number().int().min(0).max(1_023),
  /** Left out when the tools do not report it. */
  uuid: plainText(64).optional().catch(undefined),
  name: plainText(128).catch('').default(''),
  vendor: plainText(32).catch('').default(''),
  total: bytes,
  free: bytes,
  /** The largest first; left out when the tools do not report them. */
  processes: z.array(GpuProcess).max(64).optional().catch(undefined),
})
export type GpuCard = z.infer<typeof GpuCard>

export const Resources = z.object({
  cpus: z.number().int().min(1).max(65_536).nullable().catch(null).default(null),
  total_ram: bytes,
  available_ram: bytes,
  total_vram: bytes,
  available_vram: bytes,
  total_disk: bytes,
  available_disk: bytes,
  /** `nvidia`, `amd`, `intel`, `apple` or null without a usable GPU. */
  gpu_vendor: plainText(32).nullable().catch(null).default(null),
  /** CPU and GPU share one memory: `*_vram` then repeats `*_ram`, and the two must not be added. */
  unified_memory: z.boolean().catch(false).default(false),
  /** Each usable GPU; left out by older workers. `total_vram` is their sum. */
  gpus: z.array(GpuCard).max(64).optional().catch(undefined),
  /** The maximum number of replicas; left out: limited by memory only. */
  max_replicas: z.number().int().min(1).max(65_536).optional().catch(undefined),
  /** The maximum number of replicas of one model; left out: not limited. */
  max_replicas_per_model: MaxReplicasPerModel.optional().catch(undefined),
  /** The budget of the worker's operator for its GPU memory. The figures above are without it. */
  vram_budget: VramBudget.optional().catch(undefined),
  /** The age of the memory figures; left out: unknown. */
  memory_age_ms: z.number().int().min(0).max(86_400_000).optional().catch(undefined),
})
export type Resources = z.infer<typeof Resources>

export const Heartbeat = z.object({
  node_id: NodeId,
  incarnation: Incarnation,
  seq: z.number().int().min(0),
  version: z.string().max(64),
  resources: Resources,
  in_flight: z.number().int().min(0).max(1_000_000).default(0),
  ops: z.array(OperationId).max(4096).default([]),
  /** Every model process of this worker; left out by workers that run no models. */
  replicas: z
    .array(z.object({ replica_id: ReplicaId, state: ReplicaState, in_flight: z.number().int().min(0).max(1_000_000) }))
    .max(4096)
    .optional(),
})
export type Heartbeat = z.infer<typeof Heartbeat>

export const Phase = z.enum(['resolving', 'downloading', 'extracting', 'starting'])
export type Phase = z.infer<typeof Phase>

export const OpStatusReply = z.object({
  op_id: OperationId,
  state: z.enum(['unknown', 'accepted', 'running', 'succeeded', 'failed', 'cancelled']),
  phase: Phase.optional(),
  current: z.number().int().min(0).optional(),
  total: z.number().int().min(0).optional(),
  /**
   * Grows with every sign of life, also when no byte moves: the number of the last progress message, or of the one that would be
   * sent now.
   */
  progress_seq: z.number().int().min(0).optional(),
  generation: z.number().int().min(0).optional(),
  /** The attempt that it belongs to. */
  epoch: z.number().int().min(0).optional(),
  failure: Failure.optional(),
  digest: Digest.optional(),
  /** The content that the source had, of an install or upgrade without a digest. Absent when nothing was read from the source. */
  source_digest: Digest.optional(),
  version: z.string().max(256).optional(),
})
export type OpStatusReply = z.infer<typeof OpStatusReply>

const stamp = { incarnation: Incarnation, seq: z.number().int().min(0) }
const replica = {
  replica_id: ReplicaId,
  model: ModelName,
  revision: z.string().max(128),
  backend_digest: Digest.nullable().default(null),
  /** The load that started it. */
  op_id: OperationId.optional(),
}

export const NodeEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('op.result'), ...stamp, ...OpStatusReply.shape }),
  z.object({ type: z.literal('inventory'), ...stamp, ...BackendList.shape }),
  z.object({ type: z.literal('replica.ready'), ...stamp, ...replica }),
  z.object({
    type: z.literal('replica.exited'),
    ...stamp,
    ...replica,
    exit_code: z.number().int().optional(),
    signal: z.string().max(32).optional(),
    last_lines: z.array(storableText(4096)).max(100).optional(),
    /** The process ended because of a command. */
    expected: z.boolean().optional(),
  }),
  z.object({ type: z.literal('leaving'), ...stamp }),
])
export type NodeEvent = z.infer<typeof NodeEvent>

const params = { node: NodeId }
export const heartbeat = topic({ subject: 'nodes.{node}.heartbeat', params, message: Heartbeat })
export const nodeEvents = topic({ subject: 'nodes.{node}.events', params, message: NodeEvent })
export const nodeStop = topic({ subject: 'nodes.{node}.stop', params, message: z.object({}) })

/** Query and cancel one operation on a worker. */
const request = z.object({ op_id: OperationId })
export const opStatus = command({ subject: 'nodes.{node}.op.status', params, request, reply: OpStatusReply })
export const opCancel = command({ subject: 'nodes.{node}.op.cancel', params, request, reply: OpStatusReply })

export const SourceWait = z.object({
  /** The time since the last byte or sign of life. */
  silent_ms: z.number().int().min(0).max(86_400_000),
  /** The server; empty when unknown. */
  server: plainText(512).default(''),
  /** The answer of the server, when it gave one: a rate limit, an error. */
  reason: plainText(2048).default(''),
})
export type SourceWait = z.infer<typeof SourceWait>

export const Progress = z.object({
  op_id: OperationId,
  node_id: NodeId,
  backend: BackendName,
  file_name: storableText(1024).default(''),
  /** Bytes; 0 when unknown. LocalAI sends text for people ("412 MB"), or nothing. */
  current: z.number().int().min(0).catch(0),
  total: z.number().int().min(0).catch(0),
  percentage: z.number().min(0).max(100),
  phase: Phase.nullable().default(null),
  seq: z.number().int().min(0).optional(),
  /** The attempt that it belongs to. */
  epoch: z.number().int().min(0).optional(),
  /** The source delivers nothing at the moment. */
  source_wait: SourceWait.optional().catch(undefined),
})
export type Progress = z.infer<typeof Progress>
export const progress = topic({
  subject: 'nodes.{node}.backend.install.{op}.progress',
  params: { node: NodeId, op: OperationId },
  message: Progress,
})
