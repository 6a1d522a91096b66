// What comes with Muster, from the controllers: to whoever pulls an image they look like a registry. Everything goes by
// digest and is checked against it.
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
  /** `builtin://NAME@sha256:…` as an image of registries, each of which is a controller: what one has damaged, another has whole. */
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
    async send({ reference, path, headers, signal }, { what, fine }) {
      const id = nodeId()
      if (id === null)
        throw new FleetError({ code: 'unavailable', retry: 'backoff', message: `${what}: no controller knows this node yet` })
      const digest = digestIn(path, what)
      const range = headers?.['range']
      return await client.open({
        route: nodeAgentRoutes.blob,
        params: { id, digest },
        first: reference.registry,
        headers: range === undefined ? {} : { range },
        fine,
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

/** Manifests and layers are blobs of one kind here. */
function digestIn(path: string | URL, what: string): Digest {
  const digest = Digest.safeParse(String(path).replace(/^(?:manifests|blobs)\//, ''))
  if (digest.success) return digest.data
  throw new FleetError({ code: 'invalid', retry: 'never', message: `${what} has no digest, and controllers know nothing by another name` })
}
