// Backends and models that ship with Muster, served by the controllers. Each controller looks like a registry to the code
// that pulls images; all content is addressed by digest and verified against it.
import type { Clock, Log } from '@muster/host'
import { Digest, FleetError, nodeAgentRoutes, type NodeId } from '@muster/protocol'
import {
  createBusyRetry,
  fetchDocument,
  ociClientOver,
  parseBuiltinUri,
  type OciClient,
  type OciReference,
  type RegistryCall,
} from '@muster/source'
import type { ControllerClient } from '../controllers/controller-client.ts'
import { firstSuccess } from '../storage/mirrors.ts'

export interface BuiltinSource {
  readonly images: OciClient
  /** `builtin://NAME@sha256:…` as one image reference per controller: if one has damaged content, another serves it. */
  references(uri: string): readonly OciReference[]
  readGallery(digest: Digest, signal: AbortSignal): Promise<string>
}

export interface BuiltinSourceDeps {
  readonly client: Pick<ControllerClient, 'open' | 'all'>
  /** Null before the first registration. */
  readonly nodeId: () => NodeId | null
  readonly clock: Clock
  readonly log: Log
  readonly random?: () => number
}

export function createBuiltinSource({ client, nodeId, clock, log, random = Math.random }: BuiltinSourceDeps): BuiltinSource {
  const call: RegistryCall = {
    patiently: createBusyRetry({ clock, log, random }),
    async send({ reference, path, headers, signal }, { what, okStatuses }) {
      const id = nodeId()
      if (id === null) throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${what}: this node is not registered yet` })
      const digest = digestIn(path, what)
      const range = headers?.['range']
      return await client.open({
        route: nodeAgentRoutes.blob,
        params: { id, digest },
        first: reference.registry,
        headers: range === undefined ? {} : { range },
        okStatuses,
        what,
        signal,
      })
    },
  }
  return {
    images: ociClientOver(call),
    references: (uri) => client.all().map((registry) => ({ registry, ...builtinImage(uri) })),
    async readGallery(digest, signal) {
      const what = `the built-in gallery ${digest}`
      const { bytes } = await firstSuccess(client.all(), (registry) =>
        fetchDocument(call, { request: { reference: { registry, repository: 'gallery' }, path: `blobs/${digest}`, signal }, what, digest }),
      )
      return bytes.toString('utf8')
    },
  }
}

function builtinImage(uri: string): Omit<OciReference, 'registry'> {
  const parsed = parseBuiltinUri(uri)
  if (parsed === null)
    throw new FleetError({ code: 'invalid', retry: 'never', message: `${JSON.stringify(uri)} is not of the form builtin://NAME@sha256:…` })
  return { repository: parsed.name, tag: null, digest: parsed.digest }
}

/** Controllers serve manifests and layers alike, as blobs. */
function digestIn(path: string | URL, what: string): Digest {
  const digest = Digest.safeParse(String(path).replace(/^(?:manifests|blobs)\//, ''))
  if (digest.success) return digest.data
  throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has no digest; controllers serve content by digest only` })
}
