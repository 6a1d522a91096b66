import { createHash } from 'node:crypto'
import { chmod, mkdir, readFile, rm, stat, symlink, truncate, writeFile, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock, type Clock } from '@muster/host'
import type { ModelFile } from '@muster/protocol'
import { ModelName } from '@muster/protocol'
import { startFileServer, waitFor, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { bytesOf, contentOf, failureOfStage, makeTestModelFiles, never, streamOf, type Content } from '../../test/test-model-files.ts'
import { plantCanary, snapshot } from '../../test/test-store.ts'

let server: FileServer
let nth = 0
let path = ''
beforeAll(async () => (server = await startFileServer()))
afterAll(() => server.stop())
beforeEach(() => (path = `/${++nth}/weights.gguf`))

const fileAt = (at: string, { sha256 }: Partial<Content> = {}, filename = 'weights.gguf'): ModelFile => ({
  uri: `${server.url}${at}`,
  filename,
  ...(sha256 === undefined ? {} : { sha256 }),
})

describe('files by https', () => {
  it('W38 I7 are fetched, verified, linked in the folder of the model, and not fetched again', async () => {
    await using tested = await makeTestModelFiles()
    const [one, two] = [contentOf(300_000), contentOf(200_000)]
    server.put(`${path}/a`, one)
    server.put(`${path}/b`, two)
    const wanted = [fileAt(`${path}/a`, one), fileAt(`${path}/b`, two, 'tokenizer/vocab.json')]
    using staged = await tested.stage('org/tiny:v1', wanted)
    expect(await readFile(join(staged.directory, 'weights.gguf'))).toEqual(one.bytes)
    expect(await readFile(join(staged.directory, 'tokenizer/vocab.json'))).toEqual(two.bytes)
    expect(tested.progress.at(-1)).toMatchObject({ phase: 'downloading', current: 500_000, total: 500_000 })
    using again = await tested.stage('org/tiny:v1', wanted)
    expect(again.directory).toBe(staged.directory)
    expect(server.answersFor(`${path}/a`)).toHaveLength(1)
    expect((await tested.files.contents()).toSorted((a, b) => a.size - b.size)).toEqual([
      { digest: two.digest, size: 200_000 },
      { digest: one.digest, size: 300_000 },
    ])
  })

  it.each<[string, (file: string) => Promise<unknown>, number]>([
    ['cut', (file) => chmod(file, 0o600).then(() => truncate(file, 10)), 1],
    ['deleted', (file) => rm(file), 0],
  ])('I7 that were %s on the disk are restored before a process uses them', async (_, damage, fetches) => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(100_000)
    server.put(path, content)
    using first = await tested.stage('tiny', [fileAt(path, content)])
    const file = join(first.directory, 'weights.gguf')
    await damage(file)
    const before = server.requests.length
    using second = await tested.stage('tiny', [fileAt(path, content)])
    expect(await readFile(join(second.directory, 'weights.gguf'))).toEqual(content.bytes)
    expect(server.requests.length - before).toBe(fetches)
  })

  it('without a sha256 are stored by their computed digest', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(100_000)
    server.put(path, content)
    using staged = await tested.stage('tiny', [fileAt(path)])
    expect(await readFile(join(staged.directory, 'weights.gguf'))).toEqual(content.bytes)
    expect(await tested.files.size(content.digest)).toBe(100_000)
    expect(await tested.names('incoming')).toEqual([])
  })

  it('I7 E8 with a wrong hash are refused without retry, and never placed', async () => {
    await using tested = await makeTestModelFiles()
    const [content, other] = [contentOf(50_000), contentOf(50_000)]
    server.put(path, other)
    const failure = await failureOfStage(tested.stage('tiny', [fileAt(path, content)]))
    expect(failure).toMatchObject({ code: 'integrity', retry: 'never' })
    expect(failure.message).toContain('weights.gguf')
    expect(failure.message).toContain(content.digest)
    expect(failure.message).toContain(other.digest)
    expect(await tested.files.contents()).toEqual([])
    expect(await tested.names('by-model')).toEqual([])
    expect(await tested.names('incoming')).toEqual([])
  })

  it.each([
    ['a known hash', true],
    ['an unknown hash', false],
  ])('E7 that break off are continued where they ended: %s', async (_, isKnown) => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(8_000_000)
    server.put(path, { ...content, etag: '"one"' })
    server.on(path, { do: 'truncate', atBytes: 6_000_000 }, 1)
    using staged = await tested.stage('tiny', [fileAt(path, isKnown ? content : {})])
    expect(await readFile(join(staged.directory, 'weights.gguf'))).toEqual(content.bytes)
    const answers = server.answersFor(path)
    expect(answers.length).toBe(2)
    expect(answers[1]?.from).toBeGreaterThan(0)
    expect(tested.progress.map(({ current }) => current)).toContain(8_000_000)
  })

  it('of unknown hash that change between two tries are fetched from the start', async () => {
    await using tested = await makeTestModelFiles()
    const [before, after] = [contentOf(400_000), contentOf(400_000)]
    server.put(path, { ...before, etag: '"one"' })
    server.on(path, { do: 'stall', atBytes: 150_000 }, 1)
    const stopping = new AbortController()
    const first = tested.stage('tiny', [fileAt(path)], { signal: stopping.signal })
    await waitFor(() => tested.progress.at(-1)?.current === 150_000, { what: 'the first bytes' })
    stopping.abort(new Error('cancelled'))
    await expect(first).rejects.toThrow('cancelled')
    server.put(path, { ...after, etag: '"two"' })
    using staged = await tested.stage('tiny', [fileAt(path)])
    expect(await readFile(join(staged.directory, 'weights.gguf'))).toEqual(after.bytes)
    expect(server.requests.at(-1)?.headers).toMatchObject({ range: 'bytes=150000-', 'if-range': '"one"' })
  })

  it('W38 of unknown hash are not fetched again for another revision while the source is unchanged or unreachable', async () => {
    await using tested = await makeTestModelFiles()
    const [before, after] = [contentOf(100_000), contentOf(100_000)]
    server.put(path, { ...before, etag: '"one"' })
    const bytesFor = async (revision: string): Promise<Buffer> => {
      using staged = await tested.stage('tiny', [fileAt(path)], { revision })
      return await readFile(join(staged.directory, 'weights.gguf'))
    }
    const sent = (): number => server.answersFor(path).reduce((sum, { bytes }) => sum + bytes, 0)
    expect(await bytesFor('r1')).toEqual(before.bytes)
    expect(await bytesFor('r2')).toEqual(before.bytes)
    expect(sent()).toBe(100_000)
    server.on(path, { do: 'answer', status: 503, headers: { 'retry-after': '0' } }, 4)
    expect(await bytesFor('r3')).toEqual(before.bytes)
    server.put(path, { ...after, etag: '"two"' })
    expect(await bytesFor('r4')).toEqual(after.bytes)
  })

  it('E15 that trickle in byte by byte are given up, and their bytes are kept for the next try', async () => {
    // A clock 100 times as fast: a stall of half a minute is detected after a third of a second.
    const clock: Clock = {
      now: () => systemClock.now(),
      monotonic: () => systemClock.monotonic() * 100,
      sleep: (ms, signal) => systemClock.sleep(ms / 100, signal),
    }
    await using tested = await makeTestModelFiles({ clock })
    const content = contentOf(100_000)
    server.put(path, content)
    server.on(path, { do: 'slow', chunkBytes: 1, everyMs: 20 })
    const failure = await failureOfStage(tested.stage('tiny', [fileAt(path, content)]))
    expect(failure).toMatchObject({
      code: 'unavailable',
      retry: 'backoff',
      message: expect.stringMatching(/only \d+ bytes came/) as string,
    })
    expect(await tested.names('incoming')).toEqual([content.sha256])
  })

  it('E16 that redirect to a metadata service are refused without retry', async () => {
    await using tested = await makeTestModelFiles()
    server.on(path, { do: 'redirect', to: 'http://169.254.169.254/latest/meta-data/' })
    const failure = await failureOfStage(tested.stage('tiny', [fileAt(path)]))
    expect(failure).toMatchObject({ code: 'invalid', retry: 'never' })
    expect(failure.message).toContain('source_forbidden')
  })

  it('E13 wait as long as a busy server requests, with signs of life', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(10_000)
    server.put(path, content)
    server.on(path, { do: 'answer', status: 429, headers: { 'retry-after': '2' } }, 1)
    using staged = await tested.stage('tiny', [fileAt(path, content)])
    expect(staged.directory).toContain('files')
    expect(tested.signs()).toBeGreaterThan(0)
  })

  it('that do not exist fail with not_found', async () => {
    await using tested = await makeTestModelFiles()
    expect(await failureOfStage(tested.stage('tiny', [fileAt('/nowhere')]))).toMatchObject({
      code: 'not_found',
      retry: 'never',
      source: 'files',
    })
  })

  it('are fetched once for concurrent callers, each of which gets the progress', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(300_000)
    server.put(path, { ...content, etag: '"one"' })
    const many = await Promise.all([
      ...Array.from({ length: 5 }, () => tested.stage('tiny', [fileAt(path)])),
      tested.stage('other', [fileAt(path)]),
    ])
    for (const { directory } of many) expect(await readFile(join(directory, 'weights.gguf'))).toEqual(content.bytes)
    expect(server.answersFor(path)).toHaveLength(1)
  })

  it('continue for the other callers when one is cancelled', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(300_000)
    server.put(path, content)
    server.on(path, { do: 'slow', chunkBytes: 30_000, everyMs: 20 })
    const stopping = new AbortController()
    const first = tested.stage('tiny', [fileAt(path, content)], { signal: stopping.signal })
    const second = tested.stage('tiny', [fileAt(path, content)])
    await waitFor(() => (tested.progress.at(-1)?.current ?? 0) > 0, { what: 'the first bytes' })
    stopping.abort(new Error('cancelled'))
    await expect(first).rejects.toThrow('cancelled')
    using staged = await second
    expect(await readFile(join(staged.directory, 'weights.gguf'))).toEqual(content.bytes)
    expect(server.answersFor(path)).toHaveLength(1)
  })
})

describe('names', () => {
  it.each(['../x', '/etc/passwd', 'a/../../x', 'a//b', '.', 'a/..', 'a\\b', 'x'.repeat(300), 'a\0b', 'dir/'])(
    'I19 %j is refused as a file name, and nothing is fetched or written',
    async (filename) => {
      await using tested = await makeTestModelFiles()
      const look = await plantCanary(tested.temp.path)
      const before = await look()
      const asked = server.requests.length
      const failure = await failureOfStage(tested.stage('tiny', [fileAt(path, {}, filename)]))
      expect(failure).toMatchObject({ code: 'invalid', retry: 'never' })
      expect(server.requests.length).toBe(asked)
      expect(await look()).toEqual(before)
    },
  )

  it('I19 two files of one name, or a file in place of a folder, are refused', async () => {
    await using tested = await makeTestModelFiles()
    for (const names of [
      ['a', 'a'],
      ['a', 'a/b'],
      ['a/b', 'a'],
    ])
      expect(
        await failureOfStage(
          tested.stage(
            'tiny',
            names.map((name) => fileAt(path, {}, name)),
          ),
        ),
      ).toMatchObject({ code: 'invalid' })
  })

  it('I19 revisions and names of models cannot leave the store', async () => {
    await using tested = await makeTestModelFiles()
    const look = await plantCanary(tested.temp.path)
    const content = contentOf(100)
    server.put(path, content)
    const canary = Object.entries(await look()).filter(([name]) => name.startsWith('canary'))
    for (const revision of ['../../../canary/x', '/etc', '.', '', '\0', 'x'.repeat(128)]) {
      using staged = await tested.stage('a/b/c', [fileAt(path, content)], { revision })
      expect(staged.directory.startsWith(join(tested.root, 'by-model'))).toBe(true)
    }
    expect(Object.entries(await look()).filter(([name]) => name.startsWith('canary'))).toEqual(canary)
  })
})

describe('files of this machine', () => {
  it('are read from --model-dir only, after following links', async () => {
    await using tested = await makeTestModelFiles()
    const home = join(tested.temp.path, 'mine')
    const content = contentOf(70_000)
    await mkdir(join(home, 'deep'), { recursive: true })
    await writeFile(join(home, 'deep/w.gguf'), content.bytes)
    await writeFile(join(tested.temp.path, 'secret'), 'of somebody else')
    await symlink(join(tested.temp.path, 'secret'), join(home, 'escape'))
    await symlink(join(home, 'deep'), join(home, 'inside'))
    const named = (file: string, sha256?: string): ModelFile => ({
      uri: `file://${file}`,
      filename: 'w.gguf',
      ...(sha256 === undefined ? {} : { sha256 }),
    })
    expect(await failureOfStage(tested.stage('tiny', [named(join(home, 'deep/w.gguf'))]))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('--model-dir') as string,
    })
    await using open = await tested.reopen({ flags: { 'model-dir': home } })
    for (const escape of [`${home}/escape`, `${home}/../secret`, `${home}/%2e%2e/secret`, '/etc/passwd', home])
      expect(await failureOfStage(open.stage('tiny', [named(escape)]))).toMatchObject({ code: 'invalid', retry: 'never' })
    expect(await failureOfStage(open.stage('tiny', [named(`${home}/none`)]))).toMatchObject({ code: 'not_found' })
    expect(await failureOfStage(open.stage('tiny', [named(`${home}/deep/w.gguf`, contentOf(3).sha256)]))).toMatchObject({
      code: 'integrity',
      retry: 'never',
    })
    expect(await open.files.contents()).toEqual([])
    for (const good of [named(`${home}/deep/w.gguf`, content.sha256), named(`${home}/inside/w.gguf`)]) {
      using staged = await open.stage('tiny', [good], { revision: good.uri })
      expect(await readFile(join(staged.directory, 'w.gguf'))).toEqual(content.bytes)
    }
    // Later changes of the original do not change the verified copy.
    await writeFile(join(home, 'deep/w.gguf'), 'other')
    expect(await bytesOf(open.files, content.digest)).toEqual(content.bytes)
  })
})

describe('uploads', () => {
  it('are stored by their hash and can be read in ranges', async () => {
    await using tested = await makeTestModelFiles()
    const content = contentOf(123_456)
    const { files } = tested
    expect(await files.receive(streamOf(content.bytes), { signal: never })).toEqual({ digest: content.digest, size: 123_456 })
    expect(await files.receive(streamOf(content.bytes), { signal: never, digest: content.digest })).toMatchObject({ size: 123_456 })
    expect(await bytesOf(files, content.digest, { start: 100, end: 199 })).toEqual(content.bytes.subarray(100, 200))
    expect(await files.size(content.digest)).toBe(123_456)
    expect(await files.open(contentOf(1).digest, null)).toBeNull()
    using staged = await tested.stage('tiny', [{ uri: `upload:${content.digest}`, filename: 'w' }])
    expect((await stat(join(staged.directory, 'w'))).size).toBe(123_456)
  })

  it('are kept until their model is removed, however long it is not loaded', async () => {
    await using tested = await makeTestModelFiles()
    const [content, other] = [contentOf(4_000), contentOf(4_000)]
    const model = ModelName.parse('patient')
    await tested.files.receive(streamOf(content.bytes), { model, signal: never })
    await tested.files.receive(streamOf(other.bytes), { signal: never })
    const longAgo = (clock: number): number => (clock - 3 * 24 * 3600_000) / 1000
    const age = async (...parts: string[]): Promise<void> =>
      await utimes(join(tested.root, ...parts), longAgo(Date.now()), longAgo(Date.now()))
    for (const { digest } of [content, other]) await age('blobs', 'sha256', digest.slice(7))
    await age('uploads', other.digest.slice(7))
    await tested.files.remove(ModelName.parse('another'))
    expect((await tested.files.contents()).map(({ digest }) => digest)).toEqual([content.digest])
    await tested.files.remove(model)
    expect(await tested.files.contents()).toEqual([])
  })

  it('I7 with another hash or size than announced are not kept', async () => {
    await using tested = await makeTestModelFiles()
    const [content, other] = [contentOf(5_000), contentOf(5_000)]
    const send = (about: object): Promise<unknown> => tested.files.receive(streamOf(content.bytes), { signal: never, ...about })
    expect(await failureOfStage(send({ digest: other.digest }))).toMatchObject({ code: 'integrity' })
    expect(await failureOfStage(send({ size: 4_999 }))).toMatchObject({ code: 'integrity' })
    expect(await failureOfStage(send({ size: 5_001 }))).toMatchObject({ code: 'unavailable' })
    expect(await tested.files.contents()).toEqual([])
    expect(await tested.names('incoming')).toEqual([])
  })

  it('that no node stores anymore fail with unavailable', async () => {
    await using tested = await makeTestModelFiles()
    const failure = await failureOfStage(tested.stage('tiny', [{ uri: `upload:${contentOf(1).digest}`, filename: 'w' }]))
    expect(failure).toMatchObject({
      code: 'unavailable',
      retry: 'backoff',
      message: expect.stringContaining('no node that stores it') as string,
    })
  })
})

describe('built-in models', () => {
  it('are fetched from the controllers by digest, from the next one when a download breaks', async () => {
    const content = contentOf(90_000)
    const asked: string[] = []
    await using tested = await makeTestModelFiles({
      builtin: {
        references: () => ['one', 'two'].map((registry) => ({ registry, repository: 'tiny', tag: null, digest: content.digest })),
        images: {
          resolve: async () => Promise.reject(new Error('not an image')),
          resolveFile: async () => Promise.reject(new Error('not an image')),
          openBlob: async ({ registry }, digest, { offset }) => {
            asked.push(`${registry} ${digest} ${offset}`)
            const bytes = registry === 'one' ? contentOf(90_000).bytes : content.bytes
            return { stream: streamOf(bytes.subarray(offset)), offset, size: 90_000, validator: null }
          },
        },
      },
    })
    using staged = await tested.stage('tiny', [{ uri: `builtin://tiny@${content.digest}`, filename: 'tiny.gguf' }])
    const found = await readFile(join(staged.directory, 'tiny.gguf'))
    expect(createHash('sha256').update(found).digest('hex')).toBe(content.sha256)
    expect(asked).toEqual([`one ${content.digest} 0`, `two ${content.digest} 0`])
  })
})

describe('removal', () => {
  it('W31 S0.29 removes the files of every revision and keeps content of other models', async () => {
    await using tested = await makeTestModelFiles()
    const [shared, own] = [contentOf(40_000), contentOf(30_000)]
    server.put(`${path}/shared`, shared)
    server.put(`${path}/own`, own)
    const wanted = [fileAt(`${path}/shared`, shared, 'shared'), fileAt(`${path}/own`, own, 'own')]
    ;(await tested.stage('first', wanted))[Symbol.dispose]()
    ;(await tested.stage('first', wanted, { revision: 'r2' }))[Symbol.dispose]()
    using other = await tested.stage('second', [fileAt(`${path}/shared`, shared, 'x')])
    expect(await tested.files.contents()).toHaveLength(2)
    expect((await stat(join(other.directory, 'x'))).nlink).toBe(4)
    await tested.files.remove(ModelName.parse('first'))
    expect(await tested.files.contents()).toEqual([{ digest: shared.digest, size: 40_000 }])
    expect(await readFile(join(other.directory, 'x'))).toEqual(shared.bytes)
    expect(await tested.names('by-model')).toHaveLength(1)
    expect(await tested.names('staging')).toEqual([])
    await tested.files.remove(ModelName.parse('first'))
    await tested.files.remove(ModelName.parse('never-there'))
  })
})

describe('a shared volume', () => {
  it('is used in place, is hashed once, and is never changed', async () => {
    await using tested = await makeTestModelFiles()
    const volume = join(tested.temp.path, 'volume')
    const [one, two] = [contentOf(60_000), contentOf(60_000)]
    await mkdir(join(volume, 'org/tiny'), { recursive: true })
    await writeFile(join(volume, 'org/tiny/weights.gguf'), one.bytes)
    await writeFile(join(volume, 'weights.gguf'), two.bytes)
    const before = await snapshot(volume)
    await using open = await tested.reopen({ flags: { 'shared-models': volume } })
    const asked = server.requests.length
    for (let time = 0; time < 2; time++) {
      using named = await open.stage('org/tiny', [fileAt(path, one)])
      expect(named.directory).toBe(join(volume, 'org/tiny'))
    }
    using beside = await open.stage('other', [fileAt(path, two)])
    expect(beside.directory).toBe(volume)
    expect(await open.names('verified')).toHaveLength(2)
    expect(server.requests.length).toBe(asked)
    await open.files.remove(ModelName.parse('org/tiny'))
    expect(await snapshot(volume)).toEqual(before)
    expect(await open.files.contents()).toEqual([])
  })

  it('I7 I19 is not used when a hash or a size differs, when a file changed, or when a link leaves it', async () => {
    await using tested = await makeTestModelFiles()
    const volume = join(tested.temp.path, 'volume')
    const content = contentOf(60_000)
    server.put(path, content)
    await mkdir(volume)
    await using open = await tested.reopen({ flags: { 'shared-models': volume } })
    await writeFile(join(volume, 'weights.gguf'), content.bytes)
    ;(await open.stage('good', [fileAt(path, content)]))[Symbol.dispose]()
    await writeFile(join(volume, 'weights.gguf'), contentOf(60_000).bytes)
    using changed = await open.stage('changed', [fileAt(path, content)])
    expect(await readFile(join(changed.directory, 'weights.gguf'))).toEqual(content.bytes)
    await writeFile(join(volume, 'weights.gguf'), 'short')
    using short = await open.stage('short', [{ ...fileAt(path), size: 60_000 }])
    expect(await readFile(join(short.directory, 'weights.gguf'))).toEqual(content.bytes)
    await rm(join(volume, 'weights.gguf'))
    await writeFile(join(tested.temp.path, 'secret'), content.bytes)
    await symlink(join(tested.temp.path, 'secret'), join(volume, 'weights.gguf'))
    using led = await open.stage('led', [fileAt(path, content)])
    expect(led.directory.startsWith(open.root)).toBe(true)
    expect(open.log.lines.map(({ message }) => message)).toContain('cannot use shared model files')
  })
})
