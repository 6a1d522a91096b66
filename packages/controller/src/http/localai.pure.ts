// Converts views of Muster's API to LocalAI's shapes. Pure.
import {
  type BackendView,
  formatBytes,
  type GalleryView,
  isSettled,
  type LocalAiBackend,
  type LocalAiGallery,
  type LocalAiJob,
  type LocalAiModel,
  type ModelCapabilities,
  type ModelConfig,
  type ModelView,
  type OfferedBackend,
  type OfferedModel,
  type OperationNode,
  type OperationView,
  type ReplicaView,
  type UpgradeView,
} from '@muster/protocol'

/** The last message of a job that went well; scripts compare it. */
const completed = 'completed'

export function jobOf(operation: OperationView): LocalAiJob {
  const { kind, state, nodes, total_bytes: total, current_bytes: current } = operation
  const error = state === 'failed' ? errorOf(operation) : undefined
  const phase = nodes.find(({ phase: each }) => each !== null)?.phase ?? undefined
  const isActive = state === 'running' || state === 'background'
  return {
    deletion: kind.endsWith('.delete'),
    file_name: operation.file_name,
    ...(error === undefined ? {} : { error }),
    processed: !isActive,
    message: state === 'succeeded' ? completed : operation.message,
    progress: operation.progress,
    ...(phase === undefined ? {} : { phase }),
    ...(total === 0 ? {} : { current_bytes: current, total_bytes: total }),
    file_size: total === 0 ? '' : formatBytes(total),
    downloaded_size: total === 0 && current === 0 ? '' : formatBytes(current),
    gallery_element_name: operation.model ?? operation.backend ?? '',
    cancelled: state === 'cancelled',
    cancellable: isActive && operation.cancelling !== true,
    ...(nodes.length === 0 ? {} : { nodes: nodes.map(jobNodeOf) }),
  }
}

/** The first node that failed for good, else the message of the operation. */
function errorOf({ nodes, message }: OperationView): string {
  const failed = nodes.find(
    ({ status, next_retry_at: next }) => status === 'error' && isSettled({ status, nextRetryAt: next === null ? null : 0 }),
  )
  return failed === undefined ? message || 'failed' : `${failed.node_name}: ${failed.error ?? failed.message}`
}

const jobNodeOf = ({ node_id, node_name, status, error }: OperationNode): NonNullable<LocalAiJob['nodes']>[number] => ({
  node_id,
  node_name,
  status,
  ...(error === null ? {} : { error }),
})

export const galleryOf = ({ name, url }: Pick<GalleryView, 'name' | 'url'>): LocalAiGallery => ({ name, url, mirrors: [] })

const galleryNamed = (galleries: readonly GalleryView[], name: string): LocalAiGallery =>
  galleryOf(galleries.find((each) => each.name === name) ?? { name, url: '' })

export function offeredModelOf(model: OfferedModel, galleries: readonly GalleryView[]): LocalAiModel {
  const { name, description, license, icon, tags, backend, installed } = model
  return { name, description, license, icon, tags, urls: [], backend, installed, gallery: galleryNamed(galleries, model.gallery) }
}

export function offeredBackendOf(backend: OfferedBackend, galleries: readonly GalleryView[]) {
  const { name, description, license, icon, tags, urls, version, installed } = backend
  return { name, description, license, icon, tags, urls, version, installed, gallery: galleryNamed(galleries, backend.gallery) }
}

/** Tags of galleries that name what an engine produces or takes. The first match counts. */
const modalities: readonly (readonly [string, readonly string[]])[] = [
  ['tts', ['text-to-speech', 'tts']],
  ['asr', ['audio-transcription', 'speech-to-text', 'asr', 'whisper']],
  ['image', ['image-generation', 'text-to-image', 'diffusers', 'stable-diffusion']],
  ['video', ['video-generation', 'text-to-video']],
  ['embeddings', ['embeddings', 'embedding']],
  ['reranker', ['reranker', 'rerank', 'reranking']],
  ['vad', ['vad', 'voice-activity-detection']],
  ['text', ['text-to-text', 'llm', 'chat', 'gguf']],
]

/** Empty: the tags do not tell. */
const modalityOf = (tags: readonly string[]): string => {
  const own = new Set(tags.map((tag) => tag.toLowerCase()))
  return modalities.find(([, names]) => names.some((name) => own.has(name)))?.[0] ?? ''
}

export const knownBackendOf = ({ name, description, tags, installed }: OfferedBackend, isDetected: boolean) => ({
  name,
  modality: modalityOf(tags),
  auto_detect: isDetected,
  description,
  installed,
})

export function installedBackendOf(backend: BackendView, upgrade: UpgradeView | undefined): LocalAiBackend {
  const { name, is_meta: IsMeta, is_system: IsSystem, metadata, nodes } = backend
  return {
    Name: name,
    // The file is on the nodes, at a path of each worker.
    RunFile: '',
    IsMeta,
    IsSystem,
    Metadata: { alias: '', meta_backend_for: IsMeta && metadata.name !== name ? metadata.name : '', ...metadata },
    upgrade_available: backend.upgrade_available,
    ...(upgrade === undefined || upgrade.available_version === '' ? {} : { available_version: upgrade.available_version }),
    nodes: nodes.map(({ damaged: _damaged, ...node }) => node),
  }
}

export const upgradesOf = (upgrades: Readonly<Record<string, UpgradeView>>) =>
  Object.fromEntries(Object.entries(upgrades).map(([name, upgrade]) => [name, { backend_name: name, ...upgrade }]))

/** LocalAI's numbers for the state of a process. 0, not started, is left out of answers. */
const [busy, ready, broken] = [1, 2, -1]

/** Null: the model is not loaded. */
export function monitorOf(
  { state }: Pick<ModelView, 'state'>,
  replicas: readonly Pick<ReplicaView, 'state' | 'in_flight'>[],
): { state?: number } | null {
  switch (state) {
    case 'unloaded':
      return null
    case 'failed':
      return { state: broken }
    case 'ready':
      return { state: replicas.some((each) => each.state === 'ready' && each.in_flight > 0) ? busy : ready }
    default:
      return {}
  }
}

/** Input and output of each use case. */
const usecases: Readonly<Record<string, readonly [inputs: readonly string[], outputs: readonly string[]]>> = {
  chat: [['text'], ['text']],
  completion: [['text'], ['text']],
  edit: [['text'], ['text']],
  embeddings: [['text'], []],
  rerank: [['text'], []],
  vision: [['text', 'image'], ['text']],
  image: [['text'], ['image']],
  video: [['text'], ['video']],
  tts: [['text'], ['audio']],
  sound_generation: [['text'], ['audio']],
  transcript: [['audio'], ['text']],
  vad: [['audio'], []],
  detection: [['image'], []],
}

/** A model that names no use case is a text model, as for `/v1/chat/completions`. */
const defaultUsecases = ['chat', 'completion']

export function capabilitiesOf({ name, config }: Pick<ModelView, 'name' | 'config'>, created: number): ModelCapabilities {
  const own = config.known_usecases.length === 0 ? defaultUsecases : config.known_usecases.map((usecase) => usecase.toLowerCase())
  const known = own.flatMap((usecase) => (usecases[usecase] === undefined ? [] : [usecases[usecase]]))
  return {
    ...{ id: name, object: 'model', created, owned_by: 'muster', capabilities: unique([...own, ...featuresOf(config)]) },
    input_modalities: declared(config.parameters['known_input_modalities']) ?? unique(known.flatMap(([inputs]) => inputs)),
    output_modalities: declared(config.parameters['known_output_modalities']) ?? unique(known.flatMap(([, outputs]) => outputs)),
  }
}

/** Features that the configuration names; a model may have them without that. */
function featuresOf({ template, function: tools, parameters }: ModelConfig): string[] {
  return [
    ...(tools !== undefined || template?.function !== undefined ? ['tools'] : []),
    ...(parameters['enable_thinking'] === true || typeof parameters['reasoning_effort'] === 'string' ? ['thinking'] : []),
  ]
}

const declared = (value: unknown): string[] | null =>
  Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string') : null

const unique = (names: readonly string[]): string[] => [...new Set(names)]
