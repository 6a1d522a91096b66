// Finds a file in a registry: one layer of an artifact. The layer is found by the title that tools like ORAS give each file;
// the only layer, or the only one with a model's weights, needs no title.
import { type Digest, FleetError } from '@muster/protocol'
import type { Manifest, Platform } from './manifest.ts'
import { formatReference, type OciReference } from './reference.ts'
import type { RegistryCall } from './registry-call.ts'
import { findManifest } from './resolve-image.ts'

export type ArtifactFile = Readonly<{ digest: Digest; size: number }>
export type ArtifactQuery = Readonly<{ reference: OciReference; filename: string; platform: Platform; signal: AbortSignal }>

const title = 'org.opencontainers.image.title'
const weights: ReadonlySet<string> = new Set([
  'application/vnd.ollama.image.model',
  'application/vnd.docker.ai.gguf.v3',
  'application/vnd.cncf.model.weight.v1.raw',
])

export async function resolveArtifact(call: RegistryCall, { filename, ...asked }: ArtifactQuery): Promise<ArtifactFile> {
  const { manifest } = await findManifest(call, { ...asked, purpose: 'artifact' })
  const found = chooseLayer(manifest.layers, filename)
  if (found !== null) return { digest: found.digest, size: found.size }
  const titles = manifest.layers.flatMap(({ annotations }) => annotations?.[title] ?? []).slice(0, 20)
  const has =
    titles.length === 0 ? `${manifest.layers.length} layers without titles` : titles.map((each) => JSON.stringify(each)).join(', ')
  const what = `${formatReference(asked.reference)} has no file ${JSON.stringify(filename)}, only ${has}`
  throw new FleetError({ code: 'not_found', retry: 'never', message: what.slice(0, 1000) })
}

type Layer = Manifest['layers'][number]

function chooseLayer(layers: readonly Layer[], filename: string): Layer | null {
  const named = (name: string): Layer | undefined => layers.find(({ annotations }) => annotations?.[title] === name)
  const titled = named(filename) ?? named(filename.slice(filename.lastIndexOf('/') + 1))
  if (titled !== undefined) return titled
  return only(layers) ?? only(layers.filter(({ mediaType }) => weights.has(mediaType)))
}

const only = (layers: readonly Layer[]): Layer | null => (layers.length === 1 ? (layers[0] ?? null) : null)
