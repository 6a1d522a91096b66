// The fixture does what it is told, and counts it: otherwise the tests that rely on it prove nothing.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { startHostileRegistry, type HostileRegistry } from './hostile-registry.ts'
import { digestOf, makeImage } from './image-fixture.ts'

const content = Buffer.alloc(200_000, 'content')
const blob = { bytes: content, digest: digestOf(content) }

let registry: HostileRegistry
let url: string
beforeEach(async () => {
  registry = await startHostileRegistry()
  registry.addBlob(blob)
  url = `${registry.url}/v2/a/blobs/${blob.digest}`
})
afterEach(async () => await registry.stop())

const read = async (headers: Record<string, string> = {}): Promise<Buffer> =>
  Buffer.from(await (await fetch(url, { headers })).arrayBuffer())

it('serves an image by tag and by digest', async () => {
  const image = makeImage({ layers: [content] })
  registry.addImage('a', image, 'v1')
  for (const name of ['v1', image.manifest.digest]) {
    const answer = await fetch(`${registry.url}/v2/a/manifests/${name}`)
    expect([answer.headers.get('content-type'), digestOf(await answer.bytes())]).toEqual([image.manifest.mediaType, image.manifest.digest])
  }
  expect((await fetch(`${registry.url}/v2/a/manifests/v2`)).status).toBe(404)
})

it('counts the bytes of each answer, and where it began', async () => {
  await expect(read()).resolves.toEqual(content)
  await expect(read({ range: 'bytes=150000-' })).resolves.toEqual(content.subarray(150_000))
  await expect(read({ range: 'bytes=5-9' })).resolves.toEqual(content.subarray(5, 10))
  expect(registry.answersFor(blob.digest)).toEqual([
    { from: 0, bytes: 200_000 },
    { from: 150_000, bytes: 50_000 },
    { from: 5, bytes: 5 },
  ])
  expect(registry.bytesSent(blob.digest)).toBe(250_005)
  expect((await fetch(url, { headers: { range: 'bytes=200000-' } })).status).toBe(416)
})

it('changes one byte, or cuts off, and counts the bytes sent', async () => {
  registry.on(blob.digest, { do: 'corrupt', byte: 7 }, 1)
  const corrupt = await read()
  expect([corrupt.length, corrupt.findIndex((byte, at) => byte !== content[at])]).toEqual([content.length, 7])
  registry.on(blob.digest, { do: 'truncate', atBytes: 100 }, 1)
  await expect(read()).rejects.toThrow('terminated')
  expect(registry.answersFor(blob.digest)[1]).toEqual({ from: 0, bytes: 100 })
  await expect(read()).resolves.toEqual(content)
})

it('sends so much and then nothing, for as long as the client waits', async () => {
  registry.on(blob.digest, { do: 'stall', atBytes: 1000 })
  const leaving = new AbortController()
  const answer = await fetch(url, { signal: leaving.signal })
  let came = 0
  const reading = async (): Promise<void> => {
    for await (const chunk of answer.body ?? []) {
      came += chunk.length
      if (came >= 1000) setTimeout(() => leaving.abort(), 100)
    }
  }
  await expect(reading()).rejects.toThrow()
  expect([came, registry.bytesSent(blob.digest)]).toEqual([1000, 1000])
})

it('applies its faults in order, as often as configured, until it behaves', async () => {
  registry.on(blob.digest, { do: 'answer', status: 429, headers: { 'retry-after': '1' } }, 2)
  registry.on(/blobs/, { do: 'answer', status: 503 })
  const statuses = []
  for (let count = 0; count < 4; count++) statuses.push((await fetch(url)).status)
  registry.behave()
  expect([...statuses, (await fetch(url)).status]).toEqual([429, 429, 503, 503, 200])
})
