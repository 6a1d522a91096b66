import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseBuiltinUri } from '@muster/source'
import type { Digest } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packBuiltins } from './builtin-blobs.ts'

let directory: string
let backends: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'muster-builtin-'))
  backends = join(directory, 'backends')
})
afterEach(() => rm(directory, { recursive: true, force: true }))

/** Packs this version of one backend; every digest it consists of, that of the gallery first. */
async function pack(version: string): Promise<Digest[]> {
  await mkdir(join(backends, 'echo'), { recursive: true })
  await writeFile(join(backends, 'echo', 'backend.json'), JSON.stringify({ name: 'echo', version }))
  const kept = join(directory, 'kept')
  const { gallery } = await packBuiltins({ backends, directory: kept })
  const read = async (digest: Digest): Promise<string> => await readFile(join(kept, 'blobs', 'sha256', digest.slice(7)), 'utf8')
  const digestIn = (uri: string): Digest => parseBuiltinUri(uri)?.digest as Digest
  const [entry] = JSON.parse(await read(digestIn(gallery.url))) as { uri: string }[]
  const manifest = JSON.parse(await read(digestIn(entry?.uri ?? ''))) as { config: { digest: Digest }; layers: { digest: Digest }[] }
  return [digestIn(gallery.url), digestIn(entry?.uri ?? ''), manifest.config.digest, ...manifest.layers.map(({ digest }) => digest)]
}
const kept = async (): Promise<string[]> =>
  (await readdir(join(directory, 'kept', 'blobs', 'sha256'))).map((name) => `sha256:${name}`).toSorted()

describe('the blobs of earlier versions', () => {
  it('stay for one more version, however often that one starts, and then go', async () => {
    const first = await pack('1')
    const second = await pack('2')
    expect(await kept()).toEqual([...first, ...second].toSorted())
    await pack('2')
    expect(await kept()).toEqual([...first, ...second].toSorted())
    const third = await pack('3')
    expect(await kept()).toEqual([...second, ...third].toSorted())
  })

  it('all stay when nothing says which were the last, and what is no blob is left alone', async () => {
    const first = await pack('1')
    const second = await pack('2')
    await writeFile(join(directory, 'kept', 'versions.json'), '{ half')
    await writeFile(join(directory, 'kept', 'blobs', 'sha256', 'README'), 'mine')
    const third = await pack('3')
    expect(await kept()).toEqual([...first, ...second, ...third, 'sha256:README'].toSorted())
    const fourth = await pack('4')
    expect(await kept()).toEqual([...third, ...fourth, 'sha256:README'].toSorted())
  })

  it('come back into use when that version does', async () => {
    const first = await pack('1')
    const second = await pack('2')
    expect(await pack('1')).toEqual(first)
    expect(await kept()).toEqual([...first, ...second].toSorted())
  })
})
