// Every environment variable of LocalAI, and its meaning here. Settings, the log of a start, `muster doctor` and
// docs/localai-settings.md read this one table.
import {
  type Environment,
  isOff,
  sameValue,
  splitAtCommas,
  toCapability,
  toDiskCheck,
  toEndpoint,
  toGalleries,
  toHost,
  toLogFormat,
  toLogLevel,
  toPort,
  toSharedDirectory,
  toSingleReplica,
  type TranslatedValues,
  type TranslateValue,
  toTruth,
} from './localai-values.pure.ts'

export interface LocalAiName {
  /** Without the prefix `LOCALAI_` only where LocalAI has no other name. A `*` at the end stands for any rest. */
  readonly name: string
  /** Older names, read only in an environment that also has a name with the prefix: other programs use them too. */
  readonly olderNames: readonly string[]
  /** `read`: an alias of settings. `refused`: a feature that Muster lacks. */
  readonly outcome: 'read' | 'no_effect' | 'refused'
  /** The settings that it sets, by flag. */
  readonly settings: readonly Readonly<{ flag: string; translate: TranslateValue }>[]
  /** For people: the meaning here, and what to do. */
  readonly message: string
}

type Target = string | readonly [flag: string, translate: TranslateValue]

const row = (names: string | readonly string[], rest: Omit<LocalAiName, 'name' | 'olderNames'>): LocalAiName => {
  const [name = '', ...olderNames] = [names].flat()
  return { name, olderNames, ...rest }
}
const read = (names: string | readonly string[], targets: readonly Target[], message: string): LocalAiName[] => [
  row(names, {
    outcome: 'read',
    settings: targets.map((target) =>
      typeof target === 'string' ? { flag: target, translate: sameValue } : { flag: target[0], translate: target[1] },
    ),
    message,
  }),
]
const rows =
  (outcome: 'no_effect' | 'refused') =>
  (names: readonly (string | readonly string[])[], message: string): LocalAiName[] =>
    names.map((name) => row(name, { outcome, settings: [], message }))
const noEffect = rows('no_effect')
const refused = rows('refused')

const oneMachine = 'one model over several machines is not supported: a replica runs on one node'
const noUsers = 'Muster has keys and no users: put a proxy with single sign-on in front, or hand out keys with `muster keys create`'
const importer = 'give the data directory to `muster import localai`; files of Muster are in MUSTER_DATA_DIR'
const gatewayPort = 'a worker has one port: set MUSTER_GATEWAY_LISTEN or MUSTER_GATEWAY_URL; backends listen on loopback'
const ownAccount = '`muster nats-config` makes a new account; give its seed to controllers with MUSTER_NATS_ACCOUNT_SEED_FILE'
const alwaysOn = 'always on: nodes are approved and sign their requests'
const notBackends = 'workers pass only PATH, HOME, locale, library path, OMP and GPU variables on to backends'
const perModel = 'set it in each model; `muster import localai` writes it there'
const agents = 'agents are not part of Muster'
const booked = 'memory is booked before a replica starts, and busy replicas are not ended'
const preload = 'install models with `muster models install NAME`, or import the models directory'

/** In the order of LocalAI's documentation: distributed mode, then one machine. */
export const localAiNames: readonly LocalAiName[] = [
  ...noEffect(['LOCALAI_DISTRIBUTED'], '`muster controller` is the distributed mode'),
  ...read('LOCALAI_NATS_URL', ['nats-url'], 'for controllers; workers receive it when they join'),
  ...noEffect(
    [['LOCALAI_AUTH_DATABASE_URL', 'DATABASE_URL']],
    'Muster needs a database of its own, not the one of LocalAI: set MUSTER_DATABASE_URL',
  ),
  ...read('LOCALAI_REGISTRATION_TOKEN', ['join-token', 'token'], 'the join token: 16 characters or more on controllers'),
  ...read('LOCALAI_AUTO_APPROVE_NODES', [['auto-approve', toTruth]], 'the same'),
  ...read('LOCALAI_REGISTER_TO', ['join'], 'the URL of a controller of Muster'),
  ...read('LOCALAI_NODE_NAME', ['name'], 'the same'),
  ...read('LOCALAI_NODE_LABELS', [['labels', splitAtCommas]], 'the same'),
  ...noEffect(['LOCALAI_HEARTBEAT_INTERVAL'], 'controllers set the interval for all workers: MUSTER_HEARTBEAT_INTERVAL'),
  ...noEffect(
    [
      'LOCALAI_SERVE_ADDR',
      'LOCALAI_ADDR',
      'LOCALAI_ADVERTISE_ADDR',
      'LOCALAI_HTTP_ADDR',
      'LOCALAI_ADVERTISE_HTTP_ADDR',
      'LOCALAI_GRPC_MAX_PORT',
    ],
    gatewayPort,
  ),
  ...read('LOCALAI_VRAM_BUDGET', ['vram-budget'], 'for workers; `muster nodes vram-budget` can only lower it'),
  ...read('LOCALAI_MAX_REPLICAS_PER_MODEL', ['max-replicas-per-model'], 'for workers; without it there is no limit, where LocalAI has 1'),
  ...noEffect(
    ['LOCALAI_MODEL_SCHEDULING'],
    '`muster import localai` reads it; for every start write it to a file (MUSTER_MODEL_SCHEDULING)',
  ),
  ...read('LOCALAI_MODEL_SCHEDULING_CONFIG', ['model-scheduling'], 'applied once per change of the file'),
  ...read(
    'LOCALAI_DISTRIBUTED_SHARED_MODELS',
    [['shared-models', toSharedDirectory]],
    'with an absolute LOCALAI_MODELS_PATH: that directory is used in place',
  ),
  ...noEffect(
    ['LOCALAI_STORAGE_URL', 'LOCALAI_STORAGE_BUCKET', 'LOCALAI_STORAGE_REGION', 'LOCALAI_STORAGE_ACCESS_KEY', 'LOCALAI_STORAGE_SECRET_KEY'],
    'workers fetch files from each other; for models at s3:// set MUSTER_S3_ENDPOINT, MUSTER_S3_ACCESS_KEY_ID …',
  ),
  ...read(['LOCALAI_PREFETCH_MODELS', 'PREFETCH_MODELS'], [['prefetch-models', splitAtCommas]], 'names of models of this fleet'),
  ...read('LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT', ['backend-install-timeout'], 'the same'),
  ...read('LOCALAI_NATS_BACKEND_UPGRADE_TIMEOUT', ['backend-upgrade-timeout'], 'the same'),
  ...read('LOCALAI_MODEL_LOAD_WAIT', ['model-load-wait'], '0 is the default of 60s, not unlimited'),
  ...noEffect(['LOCALAI_NATS_MODEL_LOAD_TIMEOUT'], 'a load has no time limit: it ends when it stalls or fails'),
  ...noEffect(
    [
      'LOCALAI_NATS_ACCOUNT_SEED',
      'LOCALAI_NATS_SERVICE_JWT',
      'LOCALAI_NATS_SERVICE_SEED',
      'LOCALAI_NATS_WORKER_JWT_TTL',
      'LOCALAI_NATS_JWT',
      'LOCALAI_NATS_USER_SEED',
    ],
    ownAccount,
  ),
  ...noEffect(['LOCALAI_NATS_REQUIRE_AUTH', 'LOCALAI_REGISTRATION_REQUIRE_AUTH', 'LOCALAI_DISTRIBUTED_REQUIRE_AUTH'], alwaysOn),
  ...read('LOCALAI_NATS_TLS_CA', ['nats-ca'], 'with tls:// in the URL'),
  ...read('LOCALAI_NATS_TLS_CERT', ['nats-cert'], 'the same'),
  ...read('LOCALAI_NATS_TLS_KEY', ['nats-key'], 'the same'),
  ...read('LOCALAI_EXPOSE_NODE_HEADER', [['expose-node-header', toTruth]], 'the same; MUSTER_EXPOSE_ROUTING adds x-muster-node'),
  ...noEffect(
    ['LOCALAI_DISTRIBUTED_PREFIX_CACHE', 'LOCALAI_DISTRIBUTED_PREFIX_CACHE_TTL'],
    '`policy: prefix` is the default of every model; `policy: least` turns it off',
  ),
  ...read('LOCALAI_DISTRIBUTED_DISK_HEADROOM_CHECK', [['disk-check', toDiskCheck]], 'false only warns'),
  ...read('LOCALAI_FORCE_META_BACKEND_CAPABILITY', [['capability', toCapability]], '`disable` has no equivalent'),
  ...noEffect(['LOCALAI_FORCE_META_BACKEND_CAPABILITY_RUN_FILE'], 'set MUSTER_CAPABILITY on the worker'),
  ...noEffect(
    ['LOCALAI_FILE_TRANSFER_TIMEOUT', 'LOCALAI_FILE_TRANSFER_RETRIES', 'LOCALAI_INSTANCE_ID'],
    'transfers continue where they broke, and controllers name themselves',
  ),
  ...refused(['LOCALAI_API_URL', 'LOCALAI_API_TOKEN', 'LOCALAI_AGENT_*'], agents),

  ...read(
    'LOCALAI_ADDRESS',
    [
      ['host', toHost],
      ['port', toPort],
    ],
    'an address that other machines reach requires keys on all requests; the default here is loopback',
  ),
  ...noEffect(['LOCALAI_ALLOW_INSECURE_PUBLIC_BIND'], 'an address that other machines reach always requires keys'),
  ...noEffect([['LOCALAI_API_KEY', 'API_KEY']], '`muster import localai` keeps these keys for clients, by their hash'),
  ...refused(
    [
      'LOCALAI_AUTH',
      'LOCALAI_AUTH_HMAC_SECRET',
      'LOCALAI_OIDC_*',
      'GITHUB_CLIENT_ID',
      'GITHUB_CLIENT_SECRET',
      'LOCALAI_ADMIN_EMAIL',
      'LOCALAI_REGISTRATION_MODE',
      'LOCALAI_DISABLE_LOCAL_AUTH',
      'LOCALAI_DEFAULT_API_KEY_EXPIRY',
    ],
    noUsers,
  ),
  ...read('LOCALAI_BASE_URL', ['public-url'], 'the same'),
  ...noEffect(
    ['LOCALAI_CORS', 'LOCALAI_CORS_ALLOW_ORIGINS', 'LOCALAI_DISABLE_CSRF'],
    'pages of other origins need a proxy that adds the CORS headers',
  ),
  ...noEffect(
    [
      ['LOCALAI_MODELS_PATH', 'MODELS_PATH'],
      ['LOCALAI_BACKENDS_PATH', 'BACKENDS_PATH'],
      'LOCALAI_DATA_PATH',
      'LOCALAI_CONFIG_DIR',
      'LOCALAI_CONFIG_DIR_POLL_INTERVAL',
      ['LOCALAI_GENERATED_CONTENT_PATH', 'GENERATED_CONTENT_PATH'],
      ['LOCALAI_UPLOAD_PATH', 'UPLOAD_PATH'],
      ['LOCALAI_BACKENDS_SYSTEM_PATH', 'BACKEND_SYSTEM_PATH'],
    ],
    importer,
  ),
  ...noEffect(
    [
      ['LOCALAI_MODELS_CONFIG_FILE', 'CONFIG_FILE'],
      ['LOCALAI_PRELOAD_MODELS', 'PRELOAD_MODELS'],
      ['LOCALAI_PRELOAD_MODELS_CONFIG', 'PRELOAD_MODELS_CONFIG'],
      ['LOCALAI_MODELS', 'MODELS'],
    ],
    preload,
  ),
  ...noEffect([['LOCALAI_LOAD_TO_MEMORY', 'LOAD_TO_MEMORY']], '`muster import localai` gives these models `scheduling.min_replicas: 1`'),
  ...read(
    ['LOCALAI_GALLERIES', 'GALLERIES'],
    [['model-gallery', toGalleries('model')]],
    'each mirror becomes a gallery of its own, NAME-mirror-1 …',
  ),
  ...read(
    ['LOCALAI_BACKEND_GALLERIES', 'BACKEND_GALLERIES'],
    [['gallery', toGalleries('backend')]],
    'named NAME-backends: names are unique across both kinds here',
  ),
  ...noEffect([['LOCALAI_AUTOLOAD_GALLERIES', 'AUTOLOAD_GALLERIES']], 'a request never installs a model that the fleet does not have'),
  ...noEffect([['LOCALAI_AUTOLOAD_BACKEND_GALLERIES', 'AUTOLOAD_BACKEND_GALLERIES']], 'a load always installs a missing backend'),
  ...noEffect([['LOCALAI_EXTERNAL_BACKENDS', 'EXTERNAL_BACKENDS']], 'install them with `muster backends install NAME`'),
  ...refused(
    [['LOCALAI_EXTERNAL_GRPC_BACKENDS', 'EXTERNAL_GRPC_BACKENDS']],
    'external backends by address are not supported: pack the backend with `muster pack`',
  ),
  ...noEffect(
    [
      ['LOCALAI_THREADS', 'THREADS'],
      ['LOCALAI_CONTEXT_SIZE', 'CONTEXT_SIZE'],
      ['LOCALAI_F16', 'F16'],
    ],
    perModel,
  ),
  ...read(['LOCALAI_MAX_ACTIVE_BACKENDS', 'MAX_ACTIVE_BACKENDS'], ['max-replicas'], 'the limit of each worker; 0 is no limit'),
  ...read(
    ['LOCALAI_SINGLE_ACTIVE_BACKEND', 'SINGLE_ACTIVE_BACKEND'],
    [['max-replicas', toSingleReplica]],
    'true is one replica per worker',
  ),
  ...noEffect(
    [['LOCALAI_WATCHDOG_IDLE', 'WATCHDOG_IDLE']],
    'idle replicas always end after MUSTER_IDLE_SCALE_DOWN (5m); `scheduling.min_replicas: 1` keeps a model loaded',
  ),
  ...read(['LOCALAI_WATCHDOG_IDLE_TIMEOUT', 'WATCHDOG_IDLE_TIMEOUT'], ['idle-scale-down'], 'also without LOCALAI_WATCHDOG_IDLE'),
  ...noEffect(
    [
      ['LOCALAI_WATCHDOG_BUSY', 'WATCHDOG_BUSY'],
      ['LOCALAI_WATCHDOG_BUSY_TIMEOUT', 'WATCHDOG_BUSY_TIMEOUT'],
      ['LOCALAI_WATCHDOG_INTERVAL', 'WATCHDOG_INTERVAL'],
      ['LOCALAI_MEMORY_RECLAIMER', 'MEMORY_RECLAIMER', 'LOCALAI_GPU_RECLAIMER', 'GPU_RECLAIMER'],
      ['LOCALAI_MEMORY_RECLAIMER_THRESHOLD', 'MEMORY_RECLAIMER_THRESHOLD', 'LOCALAI_GPU_RECLAIMER_THRESHOLD', 'GPU_RECLAIMER_THRESHOLD'],
      ['LOCALAI_SIZE_AWARE_EVICTION', 'SIZE_AWARE_EVICTION'],
      ['LOCALAI_FORCE_EVICTION_WHEN_BUSY', 'FORCE_EVICTION_WHEN_BUSY'],
      'LOCALAI_LRU_EVICTION_*',
    ],
    booked,
  ),
  ...noEffect([['LOCALAI_MODEL_LOAD_FAILURE_COOLDOWN', 'MODEL_LOAD_FAILURE_COOLDOWN']], 'failed loads wait 5 s, doubling up to 5 min'),
  ...noEffect(['LOCALAI_MAX_CONCURRENT_BACKEND_REQUESTS'], 'requests in flight are not limited per controller'),
  ...noEffect([['LOCALAI_UPLOAD_LIMIT', 'UPLOAD_LIMIT']], 'request bodies may have 32 MiB; files of models any size'),
  ...noEffect(['LOCALAI_OPAQUE_ERRORS'], 'errors name their reason, and no prompt or secret'),
  ...noEffect([['LOCALAI_MACHINE_TAG', 'MACHINE_TAG']], 'MUSTER_EXPOSE_ROUTING adds x-muster-node to answers'),
  ...noEffect([['LOCALAI_ENABLE_TRACING', 'ENABLE_TRACING'], 'LOCALAI_TRACING_*'], 'no prompt or answer is stored'),
  ...noEffect(
    [
      ['LOCALAI_DISABLE_WEBUI', 'DISABLE_WEBUI'],
      ['LOCALAI_DISABLE_METRICS_ENDPOINT', 'DISABLE_METRICS_ENDPOINT'],
      ['LOCALAI_DISABLE_GALLERY_ENDPOINT', 'DISABLE_GALLERY_ENDPOINT'],
      ['LOCALAI_DISABLE_MCP', 'DISABLE_MCP'],
      'LOCALAI_DISABLE_AGENTS',
      'LOCALAI_DISABLE_ASSISTANT',
      ['LOCALAI_DISABLE_RUNTIME_SETTINGS', 'DISABLE_RUNTIME_SETTINGS'],
    ],
    'the web page and the routes require a key; a proxy in front can leave paths out',
  ),
  ...read(['LOCALAI_AUTO_UPGRADE_BACKENDS', 'AUTO_UPGRADE_BACKENDS'], [['auto-upgrade', toTruth]], 'the same, in rings'),
  ...noEffect(
    [
      ['LOCALAI_PREFER_DEV_BACKENDS', 'PREFER_DEV_BACKENDS'],
      ['LOCALAI_BACKEND_IMAGES_RELEASE_TAG', 'BACKEND_IMAGES_RELEASE_TAG'],
      ['LOCALAI_BACKEND_IMAGES_BRANCH_TAG', 'BACKEND_IMAGES_BRANCH_TAG'],
      ['LOCALAI_BACKEND_DEV_SUFFIX', 'BACKEND_DEV_SUFFIX'],
      'LOCALAI_BACKEND_IMAGES_DEV_SUFFIX',
    ],
    'name the -development backend in the model',
  ),
  ...refused(
    [['LOCALAI_REQUIRE_BACKEND_INTEGRITY', 'REQUIRE_BACKEND_INTEGRITY']],
    'signatures of backends are not checked; their digests always are',
  ),
  ...refused(['LOCALAI_P2P*', ['LOCALAI_FEDERATED', 'FEDERATED'], 'LLAMACPP_GRPC_SERVERS', 'EXTRA_LLAMA_CPP_ARGS', 'TOKEN'], oneMachine),
  ...read('HF_TOKEN', ['hf-token'], 'the same'),
  ...read('HF_ENDPOINT', ['hf-endpoint'], 'the same; it wins over HF_MIRROR'),
  ...read('HF_MIRROR', [['hf-endpoint', toEndpoint]], 'the same'),
  ...read('HF', [['hf-endpoint', toEndpoint]], 'the same'),
  ...noEffect(['LLAMACPP_PARALLEL'], 'set the option `parallel` of the model'),
  ...noEffect(['PYTHON_GRPC_MAX_WORKERS', 'COMPEL', 'SD_EMBED', 'XPU', 'HF_HOME', 'HUGGINGFACE_HUB_CACHE'], notBackends),
  ...read('LOCALAI_LOG_LEVEL', [['log-level', toLogLevel]], '`trace` is debug'),
  ...read('LOCALAI_LOG_FORMAT', [['log-format', toLogFormat]], '`default` is text'),
  ...noEffect([['LOCALAI_DEBUG', 'DEBUG']], 'set MUSTER_LOG_LEVEL=debug'),
]

const prefix = 'LOCALAI_'

/** True when an environment was written for LocalAI: only then do names without the prefix count. */
const isForLocalAi = (env: Environment): boolean =>
  Object.entries(env).some(([name, value]) => name.startsWith(prefix) && value !== undefined)

/** The value for a setting, and the name that it came from; null when no name of LocalAI gives one. */
export function findLocalAiValue(flag: string, env: Environment): Readonly<{ from: string; values: readonly string[] }> | null {
  for (const { name, olderNames, settings } of localAiNames) {
    const translate = settings.find((setting) => setting.flag === flag)?.translate
    if (translate === undefined) continue
    for (const each of givenNames(env, [name, ...olderNames])) {
      const values = translateValue(each, { translate, env })
      if (values !== null) return { from: each, values }
    }
  }
  return null
}

/** A value that cannot be translated throws with the name that holds it. */
export class UntranslatableValue extends Error {
  readonly from: string
  constructor(from: string, message: string) {
    super(message)
    this.name = 'UntranslatableValue'
    this.from = from
  }
}

function translateValue(from: string, { translate, env }: { translate: TranslateValue; env: Environment }): TranslatedValues {
  try {
    return translate((env[from] ?? '').trim(), env)
  } catch (error) {
    throw new UntranslatableValue(from, error instanceof Error ? error.message : String(error))
  }
}

/** Compose files leave a variable out by setting it to empty. */
function givenNames(env: Environment, names: readonly string[]): string[] {
  const withOlder = isForLocalAi(env)
  return names.filter((name) => (env[name] ?? '') !== '' && (withOlder || name.startsWith(prefix)))
}

/** One name of LocalAI that is set, and what a start with these settings makes of it. */
export interface LocalAiUse {
  readonly name: string
  /** `overridden`: a name of Muster has priority. `elsewhere`: a setting of another command. `unknown`: not in the table. */
  readonly outcome: 'used' | 'overridden' | 'elsewhere' | 'no_effect' | 'refused' | 'unknown'
  /** Without dashes; empty when no setting reads it. */
  readonly flags: readonly string[]
  readonly message: string
}

/** `explained`: the settings of a command with their sources. */
export function describeLocalAiNames(env: Environment, explained: readonly Readonly<{ flag: string; from: string }>[]): LocalAiUse[] {
  const given = isForLocalAi(env) ? Object.keys(env).filter((name) => (env[name] ?? '') !== '') : []
  return given.toSorted().flatMap((name): LocalAiUse[] => {
    const found = rowOf(name)
    if (found === undefined)
      return name.startsWith(prefix)
        ? [{ name, outcome: 'unknown', flags: [], message: 'no setting of LocalAI that Muster knows; docs/localai-settings.md lists all' }]
        : []
    const { outcome, settings, message } = found
    if (outcome !== 'read') return isOff(env[name] ?? '') ? [] : [{ name, outcome, flags: [], message }]
    const flags = settings.map(({ flag }) => flag)
    const known = explained.filter(({ flag }) => flags.includes(flag))
    if (known.length === 0) return [{ name, outcome: 'elsewhere', flags, message }]
    const used = known.filter(({ from }) => from === name).map(({ flag }) => flag)
    if (used.length > 0) return [{ name, outcome: 'used', flags: used, message }]
    if (isOff(env[name] ?? '')) return []
    // Its value asks for nothing, such as the capability `disable`, unless another source won.
    const isOverridden = known.some(({ from }) => from !== 'default')
    return [{ name, outcome: isOverridden ? 'overridden' : 'no_effect', flags: known.map(({ flag }) => flag), message }]
  })
}

function rowOf(name: string): LocalAiName | undefined {
  const exact = localAiNames.find((each) => each.name === name || each.olderNames.includes(name))
  return exact ?? localAiNames.find((each) => each.name.endsWith('*') && name.startsWith(each.name.slice(0, -1)))
}
