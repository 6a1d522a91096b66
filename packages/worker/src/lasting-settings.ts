// What was given once and holds until something else is given, so that `muster worker` alone brings back the same node
// with the same name, labels, type and gateway. Pure.
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
  }
}

export const lastingPart = ({ name, labels, type, gatewayListen, gatewayUrl, capability }: SettledSettings): LastingSettings => ({
  name,
  labels,
  type,
  gateway_listen: gatewayListen,
  gateway_url: gatewayUrl,
  capability,
})
