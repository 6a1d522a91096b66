import { describe, expect, it } from 'vitest'
import { describeLocalAiNames, findLocalAiValue, localAiNames } from './localai-names.ts'
import { bool, duration, int, list, secret, string } from './setting-kinds.ts'
import { defineSettings, explainSettings, resolveSettings } from './settings.ts'

/** Every name that a LocalAI site may have set. */
const documented = `
LOCALAI_DISTRIBUTED LOCALAI_NATS_URL LOCALAI_AUTH_DATABASE_URL DATABASE_URL LOCALAI_REGISTRATION_TOKEN LOCALAI_AUTO_APPROVE_NODES
LOCALAI_REGISTER_TO LOCALAI_NODE_NAME LOCALAI_NODE_LABELS LOCALAI_HEARTBEAT_INTERVAL LOCALAI_SERVE_ADDR LOCALAI_ADDR
LOCALAI_ADVERTISE_ADDR LOCALAI_HTTP_ADDR LOCALAI_ADVERTISE_HTTP_ADDR LOCALAI_GRPC_MAX_PORT LOCALAI_VRAM_BUDGET
LOCALAI_MAX_REPLICAS_PER_MODEL LOCALAI_MODEL_SCHEDULING LOCALAI_MODEL_SCHEDULING_CONFIG LOCALAI_DISTRIBUTED_SHARED_MODELS
LOCALAI_STORAGE_URL LOCALAI_STORAGE_BUCKET LOCALAI_STORAGE_REGION LOCALAI_STORAGE_ACCESS_KEY LOCALAI_STORAGE_SECRET_KEY
LOCALAI_PREFETCH_MODELS LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT LOCALAI_NATS_BACKEND_UPGRADE_TIMEOUT LOCALAI_MODEL_LOAD_WAIT
LOCALAI_NATS_MODEL_LOAD_TIMEOUT LOCALAI_NATS_ACCOUNT_SEED LOCALAI_NATS_SERVICE_JWT LOCALAI_NATS_SERVICE_SEED
LOCALAI_NATS_WORKER_JWT_TTL LOCALAI_NATS_JWT LOCALAI_NATS_USER_SEED LOCALAI_NATS_REQUIRE_AUTH LOCALAI_REGISTRATION_REQUIRE_AUTH
LOCALAI_DISTRIBUTED_REQUIRE_AUTH LOCALAI_NATS_TLS_CA LOCALAI_NATS_TLS_CERT LOCALAI_NATS_TLS_KEY LOCALAI_EXPOSE_NODE_HEADER
LOCALAI_DISTRIBUTED_PREFIX_CACHE LOCALAI_DISTRIBUTED_PREFIX_CACHE_TTL LOCALAI_DISTRIBUTED_DISK_HEADROOM_CHECK
LOCALAI_FORCE_META_BACKEND_CAPABILITY LOCALAI_FORCE_META_BACKEND_CAPABILITY_RUN_FILE LOCALAI_FILE_TRANSFER_TIMEOUT
LOCALAI_FILE_TRANSFER_RETRIES LOCALAI_INSTANCE_ID LOCALAI_AGENT_SUBJECT LOCALAI_AGENT_POOL_TIMEOUT LOCALAI_API_URL LOCALAI_API_TOKEN
LOCALAI_ADDRESS LOCALAI_ALLOW_INSECURE_PUBLIC_BIND LOCALAI_API_KEY API_KEY LOCALAI_AUTH LOCALAI_OIDC_ISSUER LOCALAI_OIDC_CLIENT_ID
LOCALAI_OIDC_CLIENT_SECRET GITHUB_CLIENT_ID GITHUB_CLIENT_SECRET LOCALAI_ADMIN_EMAIL LOCALAI_REGISTRATION_MODE LOCALAI_BASE_URL
LOCALAI_CORS LOCALAI_CORS_ALLOW_ORIGINS LOCALAI_DISABLE_CSRF LOCALAI_MODELS_PATH MODELS_PATH LOCALAI_BACKENDS_PATH LOCALAI_DATA_PATH
LOCALAI_CONFIG_DIR LOCALAI_GENERATED_CONTENT_PATH LOCALAI_UPLOAD_PATH LOCALAI_BACKENDS_SYSTEM_PATH LOCALAI_MODELS_CONFIG_FILE
LOCALAI_PRELOAD_MODELS LOCALAI_PRELOAD_MODELS_CONFIG LOCALAI_MODELS LOCALAI_LOAD_TO_MEMORY LOCALAI_GALLERIES GALLERIES
LOCALAI_BACKEND_GALLERIES LOCALAI_AUTOLOAD_GALLERIES LOCALAI_AUTOLOAD_BACKEND_GALLERIES LOCALAI_EXTERNAL_BACKENDS
LOCALAI_EXTERNAL_GRPC_BACKENDS LOCALAI_THREADS THREADS LOCALAI_CONTEXT_SIZE LOCALAI_F16 LOCALAI_SINGLE_ACTIVE_BACKEND
LOCALAI_MAX_ACTIVE_BACKENDS LOCALAI_WATCHDOG_IDLE LOCALAI_WATCHDOG_IDLE_TIMEOUT LOCALAI_WATCHDOG_BUSY LOCALAI_WATCHDOG_BUSY_TIMEOUT
LOCALAI_MEMORY_RECLAIMER LOCALAI_MEMORY_RECLAIMER_THRESHOLD LOCALAI_SIZE_AWARE_EVICTION LOCALAI_FORCE_EVICTION_WHEN_BUSY
LOCALAI_LRU_EVICTION_MAX_RETRIES LOCALAI_LRU_EVICTION_RETRY_INTERVAL LOCALAI_MODEL_LOAD_FAILURE_COOLDOWN
LOCALAI_MAX_CONCURRENT_BACKEND_REQUESTS LOCALAI_UPLOAD_LIMIT LOCALAI_OPAQUE_ERRORS LOCALAI_MACHINE_TAG LOCALAI_ENABLE_TRACING
LOCALAI_DISABLE_WEBUI LOCALAI_DISABLE_METRICS_ENDPOINT LOCALAI_DISABLE_GALLERY_ENDPOINT LOCALAI_DISABLE_MCP LOCALAI_DISABLE_AGENTS
LOCALAI_AUTO_UPGRADE_BACKENDS LOCALAI_PREFER_DEV_BACKENDS LOCALAI_BACKEND_IMAGES_RELEASE_TAG LOCALAI_BACKEND_IMAGES_BRANCH_TAG
LOCALAI_BACKEND_IMAGES_DEV_SUFFIX LOCALAI_REQUIRE_BACKEND_INTEGRITY LOCALAI_P2P LOCALAI_P2P_TOKEN LOCALAI_P2P_NETWORK_ID
LOCALAI_FEDERATED TOKEN LLAMACPP_GRPC_SERVERS EXTRA_LLAMA_CPP_ARGS HF_TOKEN HF_ENDPOINT HF_MIRROR HF LLAMACPP_PARALLEL
PYTHON_GRPC_MAX_WORKERS COMPEL SD_EMBED XPU HF_HOME HUGGINGFACE_HUB_CACHE LOCALAI_LOG_LEVEL LOCALAI_LOG_FORMAT DEBUG
`
  .trim()
  .split(/\s+/)

const settings = defineSettings({
  natsUrl: string({ flag: 'nats-url', default: '', help: '' }),
  port: int({ flag: 'port', default: 8080, help: '' }),
  joinToken: secret({ flag: 'join-token', help: '' }),
  autoApprove: bool({ flag: 'auto-approve', default: false, help: '' }),
  loadWait: duration({ flag: 'model-load-wait', default: '60s', help: '' }),
  modelGalleries: list({ flag: 'model-gallery', help: '' }),
  capability: string({ flag: 'capability', help: '' }),
})
type Env = Record<string, string>
const resolve = (env: Env) => resolveSettings(settings, { flags: {}, env })
const describeNames = (env: Env) => describeLocalAiNames(env, explainSettings(settings, { flags: {}, env }))

describe('the table of names', () => {
  it.each(documented)('has a row for %s', (name) => {
    const [use] = describeLocalAiNames({ [name]: 'x', LOCALAI_TEST: '1' }, []).filter((each) => each.name === name)
    expect(use?.outcome).toMatch(/^(?:elsewhere|no_effect|refused)$/)
    expect(use?.message.length).toBeGreaterThan(5)
  })

  it('has every name once', () => {
    const names = localAiNames.flatMap(({ name, olderNames }) => [name, ...olderNames])
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
  })

  it('names a setting exactly where it is read', () => {
    for (const { outcome, settings: targets } of localAiNames) expect(targets.length > 0).toBe(outcome === 'read')
  })
})

describe('a setting', () => {
  it('is read under the name of LocalAI', () => {
    const env = {
      LOCALAI_NATS_URL: 'nats://n:4222',
      LOCALAI_ADDRESS: ':9000',
      LOCALAI_AUTO_APPROVE_NODES: 't',
      LOCALAI_MODEL_LOAD_WAIT: '1m30s',
    }
    expect(resolve(env)).toMatchObject({ natsUrl: 'nats://n:4222', port: 9000, autoApprove: true, loadWait: 90_000 })
  })

  it('takes its own name first', () =>
    expect(resolve({ LOCALAI_NATS_URL: 'nats://a', MUSTER_NATS_URL: 'nats://b' }).natsUrl).toBe('nats://b'))

  it('has its default for 0', () => expect(resolve({ LOCALAI_MODEL_LOAD_WAIT: '0' }).loadWait).toBe(60_000))

  it('counts an empty variable as not set', () =>
    expect(resolve({ LOCALAI_NATS_URL: '', LOCALAI_REGISTRATION_TOKEN: '' }).natsUrl).toBe(''))

  it('refuses a value that cannot be translated, by the name that holds it', () =>
    expect(() => resolve({ LOCALAI_GALLERIES: '{}' })).toThrow('--model-gallery (from LOCALAI_GALLERIES): it is not a JSON list'))

  it('ignores a name without the prefix unless the environment is one of LocalAI', () => {
    const galleries = '[{"name":"a","url":"https://a"}]'
    expect(findLocalAiValue('model-gallery', { GALLERIES: galleries })).toBeNull()
    expect(findLocalAiValue('model-gallery', { GALLERIES: galleries, LOCALAI_THREADS: '4' })).toEqual({
      from: 'GALLERIES',
      values: ['a=https://a'],
    })
  })
})

describe('the names that are set', () => {
  it('are described, and no secret is in the description', () => {
    const env = {
      LOCALAI_REGISTRATION_TOKEN: 'a-very-secret-token',
      LOCALAI_NATS_URL: 'nats://a',
      MUSTER_NATS_URL: 'nats://b',
      LOCALAI_NODE_NAME: 'gpu-1',
      LOCALAI_UPLOAD_LIMIT: '15',
      LOCALAI_P2P: 'true',
      LOCALAI_FEDERATED: 'false',
      LOCALAI_FORCE_META_BACKEND_CAPABILITY: 'disable',
      LOCALAI_NEW_IN_NEXT_VERSION: 'secret-too',
      DEBUG: '*',
      PATH: '/bin',
    }
    const uses = describeNames(env)
    expect(uses.map(({ name, outcome, flags }) => [name, outcome, ...flags])).toEqual([
      ['DEBUG', 'no_effect'],
      ['LOCALAI_FORCE_META_BACKEND_CAPABILITY', 'no_effect', 'capability'],
      ['LOCALAI_NATS_URL', 'overridden', 'nats-url'],
      ['LOCALAI_NEW_IN_NEXT_VERSION', 'unknown'],
      ['LOCALAI_NODE_NAME', 'elsewhere', 'name'],
      ['LOCALAI_P2P', 'refused'],
      ['LOCALAI_REGISTRATION_TOKEN', 'used', 'join-token'],
      ['LOCALAI_UPLOAD_LIMIT', 'no_effect'],
    ])
    expect(JSON.stringify(uses)).not.toContain('secret')
  })

  it('are none on a machine without LocalAI', () => expect(describeNames({ DEBUG: '1', TOKEN: 'x', HF_TOKEN: 'y' })).toEqual([]))
})
