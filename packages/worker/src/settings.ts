// The settings of a worker. Most are remembered: `muster worker` alone brings back the same node with the same settings.
import { z } from 'zod'
import { natsTlsSettings } from '@muster/bus'
import { choice, defineSettings, int, list, map, parseBytes, secret, type Setting, type SettingsOf, string } from '@muster/host'
import { Labels, NodeName, NodeType, PrefetchModels, VramBudget } from '@muster/protocol'
import { findAllowListProblem, sourceSettings } from '@muster/source'
import { controllerOrigin } from './controllers/controller-urls.ts'
import { parseListenAddress } from './gateway/listen-address.ts'
import { modelFileSettings } from './models/settings.ts'

/** Distinguishes an absent setting from one that was set to the default. */
const withoutDefault = <T>(setting: Setting<T>): Setting<T | undefined> => ({ ...setting, default: undefined })
/** An empty text resets a remembered setting to its default. */
const orEmpty = (check: (text: string) => string | null) => (text: string) => (text === '' ? null : check(text))

/** Names without commas may be separated by them on the command line too. */
const separated = (setting: Setting<readonly string[]>): Setting<readonly string[]> => ({
  ...setting,
  parse: (values) => setting.parse(values.flatMap((value) => value.split(',').map((name) => name.trim())).filter((name) => name !== '')),
})
/** Settings that the workers of `muster up` take from its controller. */
export const settingsOfUp = defineSettings({ ...sourceSettings, ...natsTlsSettings, ...modelFileSettings })
export type SettingsOfUp = SettingsOf<typeof settingsOfUp>

export const workerSettings = defineSettings({
  join: string({
    flag: 'join',
    help: 'URL of a controller; needed the first time',
    check: (url) =>
      controllerOrigin(url) === null ? `"${url}" is not the URL of a controller: use http://host:port or https://host` : null,
  }),
  token: secret({ flag: 'token', allowFlag: true, help: 'the join token; needed the first time' }),
  name: string({
    flag: 'name',
    help: 'name of this node (default: the host name)',
    check: orEmpty((name) => problemOf(NodeName, name)),
  }),
  labels: withoutDefault(
    map({
      flag: 'labels',
      help: 'k=v,…: labels of this node, for selectors; "" takes them away',
      check: (labels) => problemOf(Labels, labels),
    }),
  ),
  prefetchModels: withoutDefault(
    separated(
      list({
        flag: 'prefetch-models',
        check: (names) => problemOf(PrefetchModels, names),
        help: 'name,…: models whose files this node fetches without a load, from its start on; "" takes them away',
      }),
    ),
  ),
  type: withoutDefault(
    choice({ flag: 'type', values: NodeType.options, default: 'backend', help: 'an agent node joins the cluster but has no backends' }),
  ),
  gatewayListen: string({
    flag: 'gateway-listen',
    help: 'address[:port] on which controllers reach this worker (default: the address that leads to the controller, any port)',
    check: orEmpty((text) =>
      parseListenAddress(text) === null ? `"${text}" is not an address: use 10.0.0.5, 10.0.0.5:9000, :9000 or [::1]:9000` : null,
    ),
  }),
  gatewayUrl: string({
    flag: 'gateway-url',
    help: 'URL under which controllers reach this worker, when it is behind a proxy or NAT (default: where it listens)',
    check: orEmpty((url) => (/^https?:$/.test(URL.parse(url)?.protocol ?? '') ? null : `"${url}" is not a URL: use http://host:port`)),
  }),
  capability: string({
    flag: 'capability',
    help: 'which builds of backends run here, e.g. nvidia-cuda-12, amd, vulkan, default (default: found out)',
    check: orEmpty((text) =>
      /^[a-z0-9][a-z0-9.-]{0,63}$/.test(text) ? null : `"${text}" is not a capability: 1–64 characters of a–z, 0–9, . and -`,
    ),
  }),
  maxReplicas: int({
    flag: 'max-replicas',
    min: 0,
    max: 65_536,
    help: 'how many replicas of models this machine runs at most; 0: as many as there is memory for (default: 0)',
  }),
  maxReplicasPerModel: int({
    flag: 'max-replicas-per-model',
    min: 0,
    max: 65_536,
    help: 'how many replicas of one model this machine runs at most; 0: no limit (default: 0)',
  }),
  vramBudget: string({
    flag: 'vram-budget',
    help: 'GPU memory that models may use, e.g. 80% or 12GB; a lower budget of an administrator wins; "": all (default: all)',
    check: orEmpty((text) => problemOf(VramBudget, text)),
  }),
  maxMemory: string({
    flag: 'max-memory',
    help: 'memory (RAM) that replicas may use, e.g. 12GB or 512MiB; "": all (default: all)',
    check: orEmpty((text) => ((parseBytes(text) ?? 0) > 0 ? null : `"${text}" is not an amount of memory: use 12GB or 512MiB`)),
  }),
  allowSource: list({
    flag: 'allow-source',
    check: findAllowListProblem,
    help: 'private host[:port] or CIDR that backends and models may come from, beside those of the cluster; repeatable',
  }),
  ...settingsOfUp,
})
export type WorkerSettings = SettingsOf<typeof workerSettings>

function problemOf(schema: z.ZodType, value: unknown): string | null {
  const [issue] = schema.safeParse(value).error?.issues ?? []
  if (issue === undefined) return null
  // For the key of a record, zod has the reason one level deeper.
  return (issue.code === 'invalid_key' ? issue.issues[0]?.message : undefined) ?? issue.message
}

export const RememberedSettings = z.object({
  name: z.string().optional(),
  labels: Labels.optional(),
  prefetch_models: PrefetchModels.optional(),
  type: NodeType.optional(),
  gateway_listen: z.string().optional(),
  gateway_url: z.string().optional(),
  capability: z.string().optional(),
  max_replicas: z.number().int().min(0).optional(),
  max_memory: z.string().optional(),
  max_replicas_per_model: z.number().int().min(0).optional(),
  vram_budget: z.string().optional(),
})
export type RememberedSettings = z.infer<typeof RememberedSettings>

/** The settings in effect. */
export type EffectiveSettings = Omit<WorkerSettings, 'labels' | 'type' | 'prefetchModels'> &
  Readonly<{ labels: Labels; type: NodeType; prefetchModels: readonly string[] }>

/** The given setting, else the remembered one, else the default. An empty text is the default. */
export function mergeSettings(given: WorkerSettings, before: RememberedSettings): EffectiveSettings {
  const text = (now: string | undefined, then: string | undefined): string | undefined => (now ?? then) || undefined
  return {
    ...given,
    name: text(given.name, before.name),
    labels: given.labels ?? before.labels ?? {},
    prefetchModels: given.prefetchModels ?? before.prefetch_models ?? [],
    type: given.type ?? before.type ?? 'backend',
    gatewayListen: text(given.gatewayListen, before.gateway_listen),
    gatewayUrl: text(given.gatewayUrl, before.gateway_url),
    capability: text(given.capability, before.capability),
    maxReplicas: (given.maxReplicas ?? before.max_replicas) || undefined,
    maxMemory: text(given.maxMemory, before.max_memory),
    maxReplicasPerModel: (given.maxReplicasPerModel ?? before.max_replicas_per_model) || undefined,
    vramBudget: text(given.vramBudget, before.vram_budget),
  }
}

export const rememberedSettings = (settings: EffectiveSettings): RememberedSettings => ({
  name: settings.name,
  labels: settings.labels,
  prefetch_models: PrefetchModels.parse(settings.prefetchModels),
  type: settings.type,
  gateway_listen: settings.gatewayListen,
  gateway_url: settings.gatewayUrl,
  capability: settings.capability,
  max_replicas: settings.maxReplicas,
  max_memory: settings.maxMemory,
  max_replicas_per_model: settings.maxReplicasPerModel,
  vram_budget: settings.vramBudget,
})
