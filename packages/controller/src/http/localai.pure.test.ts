import {
  ModelConfig,
  ModelName,
  OperationId,
  type BackendView,
  type GalleryView,
  type LocalAiJob,
  type OfferedBackend,
  type OperationNode,
  type OperationView,
} from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { capabilitiesOf, installedBackendOf, jobOf, knownBackendOf, monitorOf, offeredBackendOf, offeredModelOf } from './localai.pure.ts'

const node = (fields: Partial<OperationNode> = {}): OperationNode => ({
  ...{ node_id: 'n-1', node_name: 'gpu-1', status: 'queued', phase: null, message: '', file_name: '', current: 0, total: 0 },
  ...{ percentage: 0, attempts: 0, next_retry_at: null, dead: false, ring: null, error: null, error_code: null, ...fields },
})
const operation = (fields: Partial<OperationView> = {}): OperationView => ({
  ...{
    id: OperationId.parse('op-1'),
    kind: 'model.install',
    backend: null,
    model: 'phi',
    state: 'running',
    message: 'fetching',
    progress: 40,
  },
  ...{ file_name: 'phi.gguf', current_bytes: 4_000_000, total_bytes: 10_000_000, created_at: '', finished_at: null },
  ...{ requested_by: 'admin', nodes: [], ...fields },
})

describe('a job', () => {
  it('has the fields of LocalAI', () => {
    expect(jobOf(operation())).toEqual({
      ...{ deletion: false, file_name: 'phi.gguf', processed: false, message: 'fetching', progress: 40, cancelled: false },
      ...{ current_bytes: 4_000_000, total_bytes: 10_000_000, file_size: '10 MB', downloaded_size: '4 MB' },
      ...{ gallery_element_name: 'phi', cancellable: true },
    })
  })

  const failed = node({ status: 'error', error: 'no such tag', error_code: 'not_found' })
  it.each<[string, Partial<OperationView>, Partial<LocalAiJob>]>([
    ['done', { state: 'succeeded', progress: 100 }, { processed: true, message: 'completed', progress: 100, cancellable: false }],
    ['failed without nodes', { state: 'failed', message: 'wrong hash' }, { processed: true, error: 'wrong hash' }],
    [
      'failed on a node, with the error of the first one',
      { kind: 'backend.install', state: 'failed', message: 'x', nodes: [node({ status: 'success' }), failed] },
      { processed: true, error: 'gpu-1: no such tag' },
    ],
    ['cancelled', { state: 'cancelled' }, { processed: true, cancelled: true, cancellable: false }],
    ['waiting for an absent node', { state: 'background', nodes: [node()] }, { processed: false, cancellable: true }],
    ['being cancelled', { cancelling: true }, { processed: false, cancellable: false }],
    ['a deletion', { kind: 'model.delete' }, { deletion: true }],
    ['about a backend', { kind: 'backend.delete', backend: 'llama', model: null }, { deletion: true, gallery_element_name: 'llama' }],
    ['with a phase', { nodes: [node({ phase: 'extracting', status: 'downloading' })] }, { phase: 'extracting' }],
    ['without known bytes', { current_bytes: 0, total_bytes: 0 }, { file_size: '', downloaded_size: '' }],
  ])('that is %s', (_, fields, want) => {
    expect(jobOf(operation(fields))).toMatchObject(want)
  })

  it('that goes on has no error, although a node failed and is tried again', () => {
    const job = jobOf(operation({ state: 'background', nodes: [{ ...failed, next_retry_at: '2030-01-01T00:00:00Z' }] }))
    expect(job).not.toHaveProperty('error')
    expect(job.nodes).toEqual([{ node_id: 'n-1', node_name: 'gpu-1', status: 'error', error: 'no such tag' }])
  })
})

describe('lists', () => {
  const galleries: GalleryView[] = [{ name: 'mine', url: 'https://h.example/i.yaml', kind: 'backend', from: 'api', created_at: null }]
  const offered: OfferedBackend = {
    ...{ name: 'whisper', gallery: 'mine', is_meta: false, version: '1', description: 'd', license: 'MIT', icon: '', urls: ['u'] },
    ...{ tags: ['audio-transcription', 'CPU'], installed: true, nodes: [], channel: 'release' },
  }

  it('of offers name their gallery with its URL', () => {
    expect(offeredBackendOf(offered, galleries)).toMatchObject({
      name: 'whisper',
      version: '1',
      gallery: { name: 'mine', url: galleries[0]?.url },
    })
    const model = {
      name: ModelName.parse('phi'),
      description: '',
      license: '',
      icon: '',
      tags: [],
      gallery: 'gone',
      backend: 'llama',
      installed: false,
      ...{ urls: [], size_bytes: null, variants: [] },
    }
    expect(offeredModelOf(model, galleries)).toMatchObject({
      name: 'phi',
      backend: 'llama',
      gallery: { name: 'gone', url: '', mirrors: [] },
    })
  })

  it.each<[string[], string]>([
    [['audio-transcription', 'CPU'], 'asr'],
    [['Text-to-Speech'], 'tts'],
    [['LLM'], 'text'],
    [['CPU'], ''],
  ])('of known backends tell the modality of the tags %j: "%s"', (tags, modality) => {
    expect(knownBackendOf({ ...offered, tags }, false)).toMatchObject({ modality, auto_detect: false, installed: true })
  })

  it('of installed backends have capitals where LocalAI has them', () => {
    const metadata = { name: 'cuda-llama', installed_at: '', gallery_url: '', version: '1.3', uri: '', digest: 'sha256:1' }
    const backend: BackendView = {
      name: 'llama',
      is_system: false,
      is_meta: true,
      metadata,
      nodes: [],
      upgrade_available: true,
      drift: false,
    }
    const upgrade = { installed_version: '1.3', available_version: '1.4', installed_digest: '', available_digest: '', node_drift: [] }
    expect(installedBackendOf(backend, upgrade)).toMatchObject({
      ...{ Name: 'llama', IsMeta: true, IsSystem: false, upgrade_available: true, available_version: '1.4' },
      Metadata: { meta_backend_for: 'cuda-llama', version: '1.3', digest: 'sha256:1' },
    })
    expect(installedBackendOf(backend, undefined)).not.toHaveProperty('available_version')
  })
})

it.each<[Parameters<typeof monitorOf>[0]['state'], number, ReturnType<typeof monitorOf>]>([
  ['unloaded', 0, null],
  ['pending', 0, {}],
  ['loading', 0, {}],
  ['ready', 0, { state: 2 }],
  ['ready', 3, { state: 1 }],
  ['failed', 0, { state: -1 }],
])('a model that is %s with %i requests is monitored as %j', (state, inFlight, want) => {
  expect(monitorOf({ state }, [{ state: 'ready', in_flight: inFlight }])).toEqual(want)
})

it.each<[object, object]>([
  [{}, { capabilities: ['chat', 'completion'], input_modalities: ['text'], output_modalities: ['text'] }],
  [{ known_usecases: ['chat', 'vision'] }, { input_modalities: ['text', 'image'], output_modalities: ['text'] }],
  [{ known_usecases: ['embeddings'] }, { capabilities: ['embeddings'], input_modalities: ['text'], output_modalities: [] }],
  [
    { known_usecases: ['TRANSCRIPT', 'strange'] },
    { capabilities: ['transcript', 'strange'], input_modalities: ['audio'], output_modalities: ['text'] },
  ],
  [{ function: {}, parameters: { reasoning_effort: 'low' } }, { capabilities: ['chat', 'completion', 'tools', 'thinking'] }],
  [{ parameters: { known_input_modalities: ['audio', 3] } }, { input_modalities: ['audio'], output_modalities: ['text'] }],
])('a model with %j has %j', (fields, want) => {
  const config = ModelConfig.parse({ name: 'm', backend: 'llama', ...fields })
  expect(capabilitiesOf({ name: config.name, config }, 7)).toMatchObject({ id: 'm', object: 'model', created: 7, ...want })
})
