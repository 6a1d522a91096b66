// What a worker says of itself when it joins or comes back.
import { hostname } from 'node:os'
import { version, type NodeKey } from '@muster/host'
import { features, type Incarnation, type Registration } from '@muster/protocol'
import type { z } from 'zod'
import type { SettledSettings } from '../lasting-settings.ts'
import type { ResourceMonitor } from '../resources/resource-monitor.ts'

export type RegistrationFacts = Readonly<{
  settings: SettledSettings
  key: NodeKey
  incarnation: Incarnation
  monitor: ResourceMonitor
  gatewayUrl: string
  os: string
  arch: string
}>

export function describeWorker({
  settings,
  key,
  incarnation,
  monitor,
  gatewayUrl,
  os,
  arch,
}: RegistrationFacts): z.input<typeof Registration> {
  return {
    name: settings.name ?? hostname(),
    public_key: key.publicKey,
    node_type: settings.type,
    ...(settings.token === undefined ? {} : { token: settings.token.reveal() }),
    version,
    features: [...features],
    os: osNames[os] ?? os,
    arch: archNames[arch] ?? arch,
    capability: monitor.capability(),
    gateway_url: gatewayUrl,
    labels: settings.labels,
    resources: monitor.resources(),
    incarnation,
  }
}

/** As container images name them: that is what they are compared with. */
const osNames: Readonly<Record<string, string>> = { win32: 'windows' }
const archNames: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' }
