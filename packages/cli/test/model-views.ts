// Objects of models as a controller answers them, for tests.
import { ModelView, ReplicaView } from '@muster/protocol'

export const revision = (letter: string): string => `sha256-${letter.repeat(64)}`

export const modelView = (some: Partial<Record<keyof ModelView, unknown>> = {}): ModelView =>
  ModelView.parse({
    name: 'tiny',
    backend: 'llama',
    revision: revision('a'),
    config: {
      name: 'tiny',
      backend: 'llama',
      parameters: { model: 'tiny.gguf', temperature: 0.2 },
      files: [{ uri: 'https://models.example.com/tiny.gguf', filename: 'tiny.gguf' }],
      known_usecases: ['chat'],
      scheduling: { node_selector: { 'gpu.vendor': ['nvidia', 'amd'] }, min_replicas: 1, max_replicas: 4, priority: 3 },
    },
    state: 'ready',
    replicas_ready: 1,
    replicas_desired: 2,
    failure: null,
    ...some,
  })

export const replicaView = (some: Partial<Record<keyof ReplicaView, unknown>> = {}): ReplicaView =>
  ReplicaView.parse({
    id: 'r-1',
    model: 'tiny',
    revision: revision('a'),
    node_id: 'node-aaaaaaaaaaaaaaaaaaaa',
    node_name: 'gpu-1',
    state: 'ready',
    reachable: true,
    backend_digest: null,
    in_flight: 2,
    started_at: '2030-01-01T00:00:00Z',
    ...some,
  })
