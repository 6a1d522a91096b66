// Model files under kill -9, on a full disk, and with many concurrent operations.
import { execFileSync } from 'node:child_process'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ModelName } from '@muster/protocol'
import { createProcesses, isLongRun, makeTempDir, sampleCases, startFileServer, type FileServer, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bytesOf, contentOf, failureOfStage, makeTestModelFiles, never, streamOf } from '../../test/test-model-files.ts'
import { unmount } from '../../test/unmount.ts'

const mb = 1024 ** 2
const child = fileURLToPath(new URL('../../test/model-files-child.ts', import.meta.url))
const processes = createProcesses()
let server: FileServer
beforeAll(async () => (server = await startFileServer()))
afterAll(async () => {
  await processes.stopAll()
  await server.stop()
})

describe('kill -9', () => {
  it.each([
    ['a known hash', true],
    ['an unknown hash', false],
  ])('E7 I7 in the middle of a download of %s: the next try asks for the rest alone', async (_, isKnown) => {
    await using tested = await makeTestModelFiles()
    await tested.files.close()
    const content = contentOf(8 * mb)
    const path = `/kill/${String(isKnown)}`
    server.put(path, { ...content, etag: '"same"' })
    server.on(path, { do: 'stall', atBytes: 5 * mb }, 1)
    const uri = `${server.url}${path}`
    const sha256 = isKnown ? content.sha256 : ''
    const killed = await processes.start('node', { args: [child, tested.temp.path, uri, sha256] })
    await killed.waitForOutput(new RegExp(`at ${5 * mb}\\n`))
    killed.kill('SIGKILL')
    await killed.exited
    expect(await tested.names('blobs/sha256')).toEqual([])
    const again = await tested.reopen()
    using staged = await again.stage('tiny', [{ uri, filename: 'w.gguf', ...(isKnown ? { sha256 } : {}) }])
    expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    expect(server.answersFor(path).map(({ from, bytes }) => [from, bytes])).toEqual([
      [0, 5 * mb],
      [5 * mb, 3 * mb],
    ])
    await again.files.close()
  })

  it.each(sampleCases(['W.pull.mid_layer', 'W.pull.layer_verified', 'W.stage.fetched', 'W.stage.named', 'W.gc.mid'], 3))(
    'S0.29 I7 at %s: placed files are intact, and every model can be staged and removed again',
    async (step) => {
      await using tested = await makeTestModelFiles()
      await tested.files.close()
      const content = contentOf(mb)
      const path = `/step/${step}`
      server.put(path, content)
      const uri = `${server.url}${path}`
      const killed = await processes.start('node', { args: [child, tested.temp.path, uri, content.sha256, step] })
      expect(await killed.exited, killed.output()).toMatchObject({ signal: 'SIGKILL' })
      const again = await tested.reopen()
      for (const { digest } of await again.files.contents()) expect(await bytesOf(again.files, digest)).toEqual(content.bytes)
      const staged = await again.stage('tiny', [{ uri, filename: 'w.gguf', sha256: content.sha256 }])
      expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
      staged[Symbol.dispose]()
      await again.files.remove(ModelName.parse('tiny'))
      for (const directory of ['blobs/sha256', 'by-model', 'staging', 'incoming'])
        expect(await again.names(directory), directory).toEqual([])
      await again.files.close()
    },
  )
})

describe('on a disk of 24 MB', () => {
  let temp: TempDir
  let mountFailure: string | null = null
  const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })
  beforeAll(async () => {
    temp = await makeTempDir('models-tmpfs')
    try {
      run('mount', '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', temp.path)
    } catch (error) {
      mountFailure = `no tmpfs can be mounted here: ${String(error)}`
    }
  })
  afterAll(async () => {
    if (mountFailure === null) await unmount(temp.path)
    await temp.remove()
  })

  it('E4 too small for a file of known size: disk_full before it is fetched', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    await using tested = await makeTestModelFiles({ root: join(temp.path, 'before') })
    const content = contentOf(30 * mb)
    server.put('/large', content)
    const failure = await failureOfStage(tested.stage('tiny', [{ uri: `${server.url}/large`, filename: 'w' }]))
    expect(failure).toMatchObject({ code: 'disk_full', retry: 'backoff' })
    expect(server.answersFor('/large').at(-1)?.bytes ?? 0).toBeLessThan(20 * mb)
    expect(await tested.names('incoming')).toEqual([])
    await rm(tested.root, { recursive: true })
  })

  it('E4 full during a download: disk_full, its bytes are removed, other files stay, and it succeeds once there is space', async ({
    skip,
  }) => {
    if (mountFailure !== null) skip(mountFailure)
    await using tested = await makeTestModelFiles({ root: join(temp.path, 'middle') })
    const [content, other] = [contentOf(14 * mb), contentOf(mb)]
    await tested.files.receive(streamOf(other.bytes), { signal: never })
    const ballast = join(temp.path, 'ballast')
    await writeFile(ballast, Buffer.alloc(12 * mb))
    const send = (): Promise<unknown> => tested.files.receive(streamOf(content.bytes), { signal: never })
    expect(await failureOfStage(send())).toMatchObject({ code: 'disk_full', retry: 'backoff' })
    expect(await tested.names('incoming')).toEqual([])
    expect(await bytesOf(tested.files, other.digest)).toEqual(other.bytes)
    await rm(ballast)
    await send()
    expect(await tested.files.size(content.digest)).toBe(14 * mb)
    await rm(tested.root, { recursive: true })
  })
})

describe('concurrent operations', () => {
  const rounds = isLongRun ? 200 : 60
  it(`E21 ${rounds} rounds of staging and removing: no staged file is damaged, and nothing is left behind`, async () => {
    await using tested = await makeTestModelFiles()
    const contents = Array.from({ length: 4 }, () => contentOf(500))
    for (const content of contents) server.put(`/race/${content.sha256}`, content)
    const fileOf = (at: number) => {
      const content = contents[at % contents.length] ?? expect.fail()
      return { content, file: { uri: `${server.url}/race/${content.sha256}`, filename: `${content.sha256}.gguf`, sha256: content.sha256 } }
    }
    const round = async (at: number): Promise<void> => {
      const model = `m-${at % 5}`
      const chosen = [fileOf(at), fileOf(at + 1 + (at % 2))]
      if (at % 3 === 0) await tested.files.remove(ModelName.parse(`m-${(at + 2) % 5}`))
      // Each lane has its own model, which no other lane removes, so its files must exist although content is shared.
      using staged = await tested.stage(
        `own-${at}`,
        chosen.map(({ file }) => file),
        { revision: 'r' },
      )
      for (const { content, file } of chosen) {
        const found = await stat(join(staged.directory, file.filename))
        expect(found.size).toBe(content.bytes.length)
      }
      ;(await tested.stage(model, [chosen[0]?.file ?? expect.fail()]))[Symbol.dispose]()
      await tested.files.remove(ModelName.parse(`own-${at}`))
    }
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < rounds) await round(next++)
    }
    await Promise.all(Array.from({ length: 6 }, lane))
    for (let at = 0; at < 5; at++) await tested.files.remove(ModelName.parse(`m-${at}`))
    for (const directory of ['blobs/sha256', 'by-model', 'staging', 'incoming'])
      expect(await tested.names(directory), directory).toEqual([])
  })
})
