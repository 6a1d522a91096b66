// All settings of a controller. Flags, environment variables, the file and the docs are generated from them.
import { isNatsUrl, isOnLoopback, natsTlsSettings } from '@muster/bus'
import { GalleryName, GalleryUrl, type GalleryAddress, type GalleryKind } from '@muster/protocol'
import {
  bool,
  choice,
  defineSettings,
  duration,
  int,
  list,
  secret,
  SettingsError,
  string,
  type Secret,
  type SettingsOf,
} from '@muster/host'
import { findAllowListProblem, sourceSettings } from '@muster/source'
import { checkSchedulingFile } from './models/scheduling-file.ts'
import { withLive } from './with-live.ts'

/** Short secrets can be guessed. */
const isLong = (value: Secret): string | null => (value.reveal().length < 16 ? 'it is shorter than 16 characters' : null)
const isWebUrl = (value: string): string | null =>
  value === '' || (/^https?:\/\//i.test(value) && URL.canParse(value))
    ? null
    : `"${value}" is not a URL that begins with http:// or https://`
/** The value may contain a password, so the message does not repeat it. */
const namesServers = (value: string): string | null =>
  value === '' || isNatsUrl(value) ? null : 'it looks like nats://host:4222, or several of them with commas'
const isDatabaseUrl = (value: Secret): string | null =>
  /^postgres(?:ql)?:\/\//.test(value.reveal()) && URL.canParse(value.reveal())
    ? null
    : 'it looks like postgres://user:password@host:5432/database'
const isAccountSeed = (value: Secret): string | null =>
  /^SA[A-Z2-7]{56}$/.test(value.reveal().trim())
    ? null
    : 'it is not the seed of a NATS account (SA and 56 more characters), as "muster nats-config" writes it'

const isGalleries = (values: readonly string[]): string | null => {
  for (const value of values) {
    const gallery = parseGallerySetting(value, 'backend')
    if (typeof gallery === 'string') return gallery
  }
  return null
}

export const controllerSettings = defineSettings({
  host: string({ flag: 'host', default: '127.0.0.1', help: 'address to listen on' }),
  port: int({ flag: 'port', default: 8080, min: 0, max: 65_535, help: 'port to listen on (0: any free one)' }),
  publicUrl: string({
    flag: 'public-url',
    check: isWebUrl,
    default: '',
    help: 'URL under which browsers and workers reach this controller (default: http://HOST:PORT)',
  }),
  databaseUrl: secret({
    flag: 'database-url',
    check: isDatabaseUrl,
    allowFlag: true,
    help: 'PostgreSQL 15 to 18 (default: an embedded server)',
  }),
  natsUrl: string({
    flag: 'nats-url',
    check: namesServers,
    default: '',
    help: 'NATS server of the cluster (default of "up": a bus inside the process)',
  }),
  workerNatsUrl: string({
    flag: 'worker-nats-url',
    check: namesServers,
    default: '',
    help: 'NATS URL for workers (default: --nats-url)',
  }),
  ...natsTlsSettings,
  natsAccountSeed: secret({
    flag: 'nats-account-seed',
    check: isAccountSeed,
    help: 'seed of the NATS account, made by "muster nats-config"; with it every node gets its own credentials',
  }),
  adminKey: secret({ flag: 'admin-key', check: isLong, help: 'your own admin key; otherwise one is generated at the first start' }),
  joinToken: secret({ flag: 'join-token', check: isLong, help: 'your own join token; otherwise one is generated at the first start' }),
  requireApiKey: bool({ flag: 'require-api-key', default: false, help: 'require a key on /v1 also on a loopback host' }),
  autoApprove: bool({ flag: 'auto-approve', default: false, help: 'approve every node that joins with the token' }),
  heartbeatInterval: duration({ flag: 'heartbeat-interval', default: '5s', help: 'how often workers report' }),
  nodeTimeout: duration({ flag: 'node-timeout', default: '15s', help: 'silence after which a node is unhealthy' }),
  nodeOfflineAfter: duration({ flag: 'node-offline-after', default: '10m', help: 'silence after which a node is offline' }),
  backendInstallTimeout: duration({
    flag: 'backend-install-timeout',
    aliases: ['LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT'],
    default: '15m',
    help: 'how long an install on a node may take before it is shown as running_on_worker; it is not aborted',
  }),
  backendUpgradeTimeout: duration({
    flag: 'backend-upgrade-timeout',
    aliases: ['LOCALAI_NATS_BACKEND_UPGRADE_TIMEOUT'],
    default: '15m',
    help: 'the same for upgrades',
  }),
  opRetryBase: duration({
    flag: 'op-retry-base',
    default: '30s',
    help: 'pause after the first failed attempt on a node; doubled after each further one',
  }),
  opRetryMax: duration({ flag: 'op-retry-max', default: '15m', help: 'the longest pause between two attempts' }),
  opMaxAttempts: int({
    flag: 'op-max-attempts',
    default: 10,
    min: 1,
    max: 1_000,
    help: 'failed attempts after which a node is given up (and can be retried by hand)',
  }),
  opStallTimeout: duration({
    flag: 'op-stall-timeout',
    default: '2m',
    help: 'work without progress for this long is cancelled on its worker and retried',
  }),
  modelLoadWait: duration({
    flag: 'model-load-wait',
    default: '60s',
    help: 'how long a request waits for a model that is not loaded before it is answered 503; the load continues',
  }),
  drainDelay: duration({
    flag: 'drain-delay',
    allowZero: true,
    help: 'how long a stopping controller still accepts requests while /readyz answers 503, so that load balancers notice (default: 5s; 0 on a loopback address without a public URL)',
  }),
  drainTimeout: duration({
    flag: 'drain-timeout',
    allowZero: true,
    default: '60s',
    help: 'how long a stopping controller then waits for requests and streams in progress before it cuts them (0: not at all)',
  }),
  exposeRouting: bool({
    flag: 'expose-routing',
    default: false,
    help: 'send the node and replica that answered in response headers of /v1',
  }),
  exposeNodeHeader: bool({
    flag: 'expose-node-header',
    aliases: ['LOCALAI_EXPOSE_NODE_HEADER'],
    default: false,
    help: 'send the id of the node that answered in the response header X-LocalAI-Node of /v1',
  }),
  reconcileInterval: duration({ flag: 'reconcile-interval', default: '10s', help: 'safety poll of the queue; events wake it earlier' }),
  idleScaleDown: duration({ flag: 'idle-scale-down', default: '5m', help: 'idle time after which replicas above the minimum are removed' }),
  historyRetention: duration({ flag: 'history-retention', default: '30d', help: 'how long finished operations and their events are kept' }),
  upgradeCheckInterval: duration({
    flag: 'upgrade-check-interval',
    default: '6h',
    help: 'interval of the check for newer builds of installed backends; also shortly after the start and after backend operations',
  }),
  autoUpgrade: bool({ flag: 'auto-upgrade', default: false, help: 'upgrade backends automatically when a newer build is found' }),
  diskCheck: choice({
    flag: 'disk-check',
    values: ['refuse', 'warn'],
    default: 'refuse',
    help: 'whether a node whose disk looks too small for a model or a backend is left out (refuse), or tried with a warning (warn)',
  }),
  ...sourceSettings,
  allowSource: list({
    flag: 'allow-source',
    check: findAllowListProblem,
    help: 'private host[:port] or CIDR that backends, galleries and models may come from; repeatable',
  }),
  hfEndpoint: string({
    flag: 'hf-endpoint',
    default: 'https://huggingface.co',
    aliases: ['HF_ENDPOINT'],
    check: isWebUrl,
    help: 'address for hf://: Hugging Face or a mirror',
  }),
  hfToken: secret({ flag: 'hf-token', aliases: ['HF_TOKEN'], help: 'token for private or gated models on Hugging Face' }),
  galleries: list({
    flag: 'gallery',
    check: isGalleries,
    help: 'NAME=URL of a gallery of backends, beside the built-in one; repeatable',
  }),
  modelGalleries: list({ flag: 'model-gallery', check: isGalleries, help: 'NAME=URL of a gallery of models; repeatable' }),
  modelScheduling: string({
    flag: 'model-scheduling',
    default: '',
    check: checkSchedulingFile,
    help: 'a YAML or JSON file with scheduling rules of models, applied at the start when its content is new',
  }),
})
export type ControllerSettings = SettingsOf<typeof controllerSettings>

/** The settings that administrators can change while controllers run: each is read at every use. */
export const runtimeSettings = {
  autoApprove: controllerSettings.autoApprove,
  backendInstallTimeout: controllerSettings.backendInstallTimeout,
  backendUpgradeTimeout: controllerSettings.backendUpgradeTimeout,
  opRetryBase: controllerSettings.opRetryBase,
  opRetryMax: controllerSettings.opRetryMax,
  opMaxAttempts: controllerSettings.opMaxAttempts,
  opStallTimeout: controllerSettings.opStallTimeout,
  modelLoadWait: controllerSettings.modelLoadWait,
  exposeRouting: controllerSettings.exposeRouting,
  idleScaleDown: controllerSettings.idleScaleDown,
  historyRetention: controllerSettings.historyRetention,
  upgradeCheckInterval: controllerSettings.upgradeCheckInterval,
  autoUpgrade: controllerSettings.autoUpgrade,
  diskCheck: controllerSettings.diskCheck,
}

/** True when other machines can reach NATS and no account seed is set: any client could then impersonate every node. */
export function isBusOpen({ natsUrl, workerNatsUrl, natsAccountSeed }: ControllerSettings): boolean {
  return natsAccountSeed === undefined && [natsUrl, workerNatsUrl].some((servers) => servers !== '' && !isOnLoopback(servers))
}

/** The galleries of the settings, in their order. */
export function galleriesOf(settings: Pick<ControllerSettings, 'galleries' | 'modelGalleries'>): GalleryAddress[] {
  const parse =
    (kind: GalleryKind) =>
    (value: string): GalleryAddress[] => {
      const gallery = parseGallerySetting(value, kind)
      return typeof gallery === 'string' ? [] : [gallery]
    }
  return [...settings.galleries.flatMap(parse('backend')), ...settings.modelGalleries.flatMap(parse('model'))]
}

/** The name of the built-in gallery. */
export const builtinGalleryName = 'builtin'

/** Returns the gallery, or a message. */
function parseGallerySetting(value: string, kind: GalleryKind): GalleryAddress | string {
  const [, name = '', url = ''] = /^([^=]*)=(.*)$/s.exec(value) ?? []
  const problem = GalleryName.safeParse(name).error ?? GalleryUrl.safeParse(url).error
  if (name === builtinGalleryName) return `"${name}" is the name of the gallery that comes with Muster; choose another`
  if (problem !== undefined) return `"${value}" is not NAME=URL: ${problem.issues[0]?.message ?? ''}`
  return { name, url, kind }
}

/** How failed attempts on nodes are repeated. */
export const retryOf = (settings: Pick<ControllerSettings, 'opRetryBase' | 'opRetryMax' | 'opMaxAttempts'>) =>
  withLive({}, { baseMs: () => settings.opRetryBase, maxMs: () => settings.opRetryMax, maxAttempts: () => settings.opMaxAttempts })

/** Checks settings that depend on each other. */
export function checkSettings(settings: ControllerSettings): void {
  if (settings.upgradeCheckInterval < 1_000) throw new SettingsError('--upgrade-check-interval must be at least 1s')
  if (settings.heartbeatInterval < 100) throw new SettingsError('--heartbeat-interval must be at least 100ms')
  if (settings.nodeTimeout < 2 * settings.heartbeatInterval) {
    throw new SettingsError('--node-timeout must be at least twice --heartbeat-interval, so that one lost heartbeat is tolerated')
  }
  if (settings.opRetryMax < settings.opRetryBase) throw new SettingsError('--op-retry-max must not be shorter than --op-retry-base')
  if (settings.nodeOfflineAfter < settings.nodeTimeout)
    throw new SettingsError('--node-offline-after must not be shorter than --node-timeout')
  const names = galleriesOf(settings).map((gallery) => gallery.name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined)
    throw new SettingsError(`--gallery and --model-gallery name two galleries "${twice}"; each needs a name of its own`)
}
