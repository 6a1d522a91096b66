// An OCI image layout on disk: blobs by digest, and index.json, which lists the images.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { newId, temporaryName, writeFileAtomic } from '@muster/host'
import { Digest } from '@muster/protocol'
import { writeTar } from './tar-writer.ts'
import { walkDirectory } from './walk-directory.ts'

export interface Descriptor {
  readonly mediaType: string
  readonly digest: Digest
  readonly size: number
}

export const digestOf = (bytes: Uint8Array | string): Digest => Digest.parse(`sha256:${createHash('sha256').update(bytes).digest('hex')}`)

/** The same bytes for the same value: keys keep their order. */
export const jsonBytes = (value: object): Buffer => Buffer.from(JSON.stringify(value))

/** Where the parts of an image go. */
export interface BlobSink {
  putBytes(mediaType: string, bytes: Uint8Array): Promise<Descriptor>
  /** The name is known only at the end. */
  putStream(mediaType: string, chunks: AsyncIterable<Uint8Array>): Promise<Descriptor>
}

export type ImageLayout = Awaited<ReturnType<typeof openLayout>>

export async function openLayout(directory: string) {
  const blobs = join(directory, 'blobs', 'sha256')
  await mkdir(blobs, { recursive: true })
  const pathOf = (digest: Digest): string => join(blobs, digest.slice('sha256:'.length))

  return {
    directory,
    pathOf,
    openBlob: (digest: Digest) => createReadStream(pathOf(digest)),

    async putBytes(mediaType: string, bytes: Uint8Array): Promise<Descriptor> {
      const digest = digestOf(bytes)
      await writeFileAtomic(pathOf(digest), bytes, { mode: 0o644 })
      return { mediaType, digest, size: bytes.length }
    },

    async putStream(mediaType: string, chunks: AsyncIterable<Uint8Array>): Promise<Descriptor> {
      const temporary = join(blobs, `.${newId()}.tmp`)
      const hash = createHash('sha256')
      let size = 0
      try {
        await using file = await open(temporary, 'wx', 0o644)
        for await (const chunk of chunks) {
          hash.update(chunk)
          size += chunk.length
          await file.appendFile(chunk)
        }
        await file.sync()
        const digest = Digest.parse(`sha256:${hash.digest('hex')}`)
        await rename(temporary, pathOf(digest))
        return { mediaType, digest, size }
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      }
    },

    /** Adds the image to index.json, under this name if there is one. */
    async name(image: Descriptor, refName: string | null): Promise<void> {
      const annotations = refName === null ? {} : { annotations: { 'org.opencontainers.image.ref.name': refName } }
      const others = (await readIndex(directory)).filter((each) => !isReplaced(each, image, refName))
      const index = {
        schemaVersion: 2,
        mediaType: 'application/vnd.oci.image.index.v1+json',
        manifests: [...others, { ...image, ...annotations }],
      }
      await writeFile(join(directory, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
      await writeFileAtomic(join(directory, 'index.json'), jsonBytes(index), { mode: 0o644 })
    },
  }
}

type ListedManifest = Readonly<{ digest?: unknown; annotations?: Readonly<Record<string, unknown>> }>

async function readIndex(directory: string): Promise<ListedManifest[]> {
  const text = await readFile(join(directory, 'index.json'), 'utf8').catch(() => '{}')
  const parsed: unknown = JSON.parse(text)
  const manifests = typeof parsed === 'object' && parsed !== null && 'manifests' in parsed ? parsed.manifests : []
  return Array.isArray(manifests) ? (manifests as ListedManifest[]) : []
}

const isReplaced = (listed: ListedManifest, image: Descriptor, refName: string | null): boolean => {
  const name = listed.annotations?.['org.opencontainers.image.ref.name'] ?? null
  return refName === null ? listed.digest === image.digest && name === null : name === refName
}

// An OCI image layout as one file, as `skopeo copy oci-archive:…` and others read it.
/** Creates the file whole or not at all. */
export async function writeLayoutTar(layout: string, path: string, signal: AbortSignal): Promise<void> {
  const sources = await walkDirectory(layout, signal)
  const temporary = temporaryName(path)
  try {
    await pipeline(writeTar(sources), createWriteStream(temporary, { flags: 'wx', mode: 0o644 }), { signal })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
