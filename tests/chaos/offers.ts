// Everything that can be installed: images of several versions of several backends, the galleries that offer them, and files of
// models. Each image is a working engine.
import { createHash } from 'node:crypto'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import type { Processes } from '@muster/testkit'
import { noise } from '../install/worker-world.ts'

export interface Image {
  readonly backend: string
  readonly version: string
  readonly uri: string
  readonly digest: string
}

/** `registry`: the address that images are pushed to and named by. */
export type Publishing = Readonly<{ directory: string; processes: Processes; registry: string }>
export type PublishedBackends = Readonly<{ backends: readonly string[]; versions: readonly string[] }>

/** Half of the backends are large enough that they are killed while they are fetched. */
export async function publishAll({ backends, versions }: PublishedBackends, publishing: Publishing): Promise<Image[]> {
  const wanted = backends.flatMap((backend, index) =>
    versions.map((version) => ({ backend, version, sizeBytes: index % 2 === 0 ? 4_096 : 1_500_000 })),
  )
  const images: Image[] = []
  const lanes = Array.from({ length: 2 }, async () => {
    for (let next = wanted.shift(); next !== undefined; next = wanted.shift()) images.push(await publish(next, publishing))
  })
  await Promise.all(lanes)
  return images
}

const engine = new URL('../../backends/echo/', import.meta.url)

async function publish(
  { backend, version, sizeBytes }: { backend: string; version: string; sizeBytes: number },
  { directory, processes, registry }: Publishing,
): Promise<Image> {
  const from = join(directory, 'images', `${backend}-${version}`)
  await mkdir(from, { recursive: true })
  await cp(new URL('server.mjs', engine), join(from, 'server.mjs'))
  const about: object = JSON.parse(await readFile(new URL('backend.json', engine), 'utf8'))
  await writeFile(join(from, 'backend.json'), JSON.stringify({ ...about, name: backend, version }))
  await writeFile(join(from, 'weights'), noise(sizeBytes))
  const uri = `${registry}/backends/${backend}:${version}`
  const packing = await processes.muster(['pack', from, '-t', uri, '--push', '--allow-source', registry, '-o', 'json'])
  const { code } = await packing.exited
  if (code !== 0) throw new Error(packing.output())
  return { backend, version, uri, digest: (JSON.parse(packing.stdout()) as { digest: string }).digest }
}

export interface ModelFile {
  readonly uri: string
  readonly filename: string
  readonly sha256: string
}

export interface Offers extends AsyncDisposable {
  /** The gallery of the controllers' settings. */
  readonly galleryUrl: string
  /** Replaces its content. */
  offer(images: readonly Image[]): void
  /** A gallery with this version of every backend. */
  versionUrl(version: string): string
  /** One of several contents of a model's file. */
  file(number: number): ModelFile
}

const fileBytes = 64 * 1024

export async function serveOffers(all: () => readonly Image[]): Promise<Offers> {
  let offered: readonly Image[] = []
  const entries = (images: readonly Image[]): string =>
    JSON.stringify(images.map(({ backend, version, uri }) => ({ name: backend, version, uri: `oci://${uri}` })))
  const contentOf = (number: number): Buffer => Buffer.alloc(fileBytes, `content ${number} `)
  const server = createServer((request, response) => {
    const [, kind, which = ''] = (request.url ?? '').split('/')
    if (kind === 'file') response.end(contentOf(Number(which)))
    else if (kind === 'version') response.end(entries(all().filter(({ version }) => version === which)))
    else response.end(entries(offered))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  const url = `http://127.0.0.1:${address.port}`
  return {
    galleryUrl: `${url}/index.yaml`,
    offer: (images) => void (offered = images),
    versionUrl: (version) => `${url}/version/${version}/index.yaml`,
    file: (number) => ({
      uri: `${url}/file/${number}`,
      filename: 'weights.bin',
      sha256: createHash('sha256').update(contentOf(number)).digest('hex'),
    }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
