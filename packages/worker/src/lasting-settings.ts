// What was given once and holds until something else is given, so that `muster worker` alone brings back the same node
// with the same name, labels, type, gateway and limits. Pure.
import { Labels, NodeType } from '@muster/protocol'
import { z } from 'zod'
import type { WorkerSettings } from './settings.ts'

export const LastingSettings = z.object({
  name: z.string().optional(),
  labels: Labels.optional(),
  type: NodeType.optional(),
  gateway_listen: z.string().optional(),
  gateway_url: z.string().optional(),
  capability: z.string().optional(),
  max_replicas: z.number().int().min(0).optional(),
  max_memory: z.string().optional(),
})
export type LastingSettings = z.infer<typeof LastingSettings>

/** What a worker goes by. */
export type SettledSettings = Omit<WorkerSettings, 'labels' | 'type'> & Readonly<{ labels: Labels; type: NodeType }>

/** Given now, else given before, else the default. An empty text is the default again. */
export function settleSettings(given: WorkerSettings, before: LastingSettings): SettledSettings {
  const text = (now: string | undefined, then: string | undefined): string | undefined => (now ?? then) || undefined
  return {
    ...given,
    name: text(given.name, before.name),
    labels: given.labels ?? before.labels ?? {},
    type: given.type ?? before.type ?? 'backend',
    gatewayListen: text(given.gatewayListen, before.gateway_listen),
    gatewayUrl: text(given.gatewayUrl, before.gateway_url),
    capability: text(given.capability, before.capability),
    maxReplicas: (given.maxReplicas ?? before.max_replicas) || undefined,
    maxMemory: text(given.maxMemory, before.max_memory),
  }
}

export const lastingPart = (settings: SettledSettings): LastingSettings => ({
  name: settings.name,
  labels: settings.labels,
  type: settings.type,
  gateway_listen: settings.gatewayListen,
  gateway_url: settings.gatewayUrl,
  capability: settings.capability,
  max_replicas: settings.maxReplicas,
  max_memory: settings.maxMemory,
})
