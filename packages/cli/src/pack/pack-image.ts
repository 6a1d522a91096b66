// Packs a directory, writes the image and pushes it.
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { silentLog, type Clock } from '@muster/host'
import type { Digest } from '@muster/protocol'
import type { Compression, PackedImage, PackPlatform } from '@muster/source'

export interface PackRequest {
  readonly directory: string
  readonly tag: string
  readonly push: boolean
  /** A directory, or a file that ends in .tar. */
  readonly out: string | null
  readonly platforms: readonly PackPlatform[]
  readonly compression: Compression
  readonly allowSource: readonly string[]
  readonly dockerConfig: string | null
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
}

export interface PackResult {
  readonly image: string
  readonly digest: Digest
  readonly diff_id: Digest
  /** The sum of all blobs to push. */
  readonly size: number
  readonly files: number
  readonly out: string | null
  readonly pushed: boolean
}

interface Run {
  readonly remark: (text: string) => void
  readonly signal: AbortSignal
}

export async function packImage(request: PackRequest, run: Run): Promise<PackResult> {
  const { packDirectory, parseReference, formatReference, writeLayoutTar } = await import('@muster/source')
  const reference = parseReference(request.tag)
  const isTar = request.out?.endsWith('.tar') ?? false
  // Not an error: the image may be meant for something else.
  if (!['backend.json', 'run.sh'].some((name) => existsSync(join(request.directory, name))))
    run.remark('no backend.json or run.sh at the root of the directory: no node can start it as a backend')
  const temporary = await mkdtemp(join(tmpdir(), 'muster-pack-'))
  try {
    const image = await packDirectory(request.directory, {
      layout: request.out === null || isTar ? temporary : request.out,
      platforms: request.platforms,
      compression: request.compression,
      signal: run.signal,
      ...(reference.tag === null ? {} : { refName: reference.tag }),
    })
    if (request.out !== null && isTar) await writeLayoutTar(temporary, request.out, run.signal)
    if (request.push) await push(request, image, run)
    return {
      image: formatReference(reference),
      digest: image.root.digest,
      diff_id: image.diffId,
      size: [...new Map([image.root, ...image.manifests, ...image.blobs].map((blob) => [blob.digest, blob.size])).values()].reduce(
        (a, b) => a + b,
        0,
      ),
      files: image.entries,
      out: request.out === null ? null : resolve(request.out),
      pushed: request.push,
    }
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function push(request: PackRequest, image: PackedImage, { remark, signal }: Run): Promise<void> {
  const { createOutbound, createRegistryApi, dockerCredentials, parseReference, pushImage } = await import('@muster/source')
  const shared = { clock: request.clock, log: silentLog }
  const path = request.dockerConfig ?? join(request.env['DOCKER_CONFIG'] ?? join(homedir(), '.docker'), 'config.json')
  const registry = createRegistryApi({
    outbound: createOutbound({ allow: request.allowSource, ...shared }),
    credentials: dockerCredentials({ path, log: silentLog }),
    ...shared,
  })
  const onBlob = (blob: { digest: string; size: number }, outcome: string): void =>
    remark(`${blob.digest} (${blob.size} bytes): ${outcome}`)
  await pushImage(image, { to: parseReference(request.tag), registry, signal, onBlob })
}
