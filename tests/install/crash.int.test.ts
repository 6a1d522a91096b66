// Kills a worker process at each named step of an install, an upgrade and a delete, and checks that the next process
// finishes the work. The registry reports what was fetched; the disk shows what is there.
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { backendDelete, backendInstall, backendUpgrade, type CommandReply, type OpStatusReply } from '@muster/protocol'
import { isLongRun, sampleCases, waitFor, type StartedProcess } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { first, second, third, versions, type Version } from './crash-images.ts'
import { answersFor, diskWith, endNow, endsIn, hexOf, keptBytes, readDisk, repository, startCrashWorld, treesOf } from './crash-world.ts'
import type { Answers, CrashWorld, KillAt } from './crash-world.ts'

let world: CrashWorld
/** The data directory of a worker that has `second`, and `first` as the version before. */
let upgraded: string
const running: StartedProcess[] = []
let ops = 0

beforeAll(async () => {
  world = await startCrashWorld()
  upgraded = await world.copyOf(world.origin())
  const worker = await start(upgraded)
  for (const [kind, version, generation] of [
    ['install', first, 1],
    ['upgrade', second, 2],
  ] as const) {
    await send(kind, { ...pinned(version), op_id: `prepare-${generation}`, generation, epoch: 1, async: true })
    expect(await world.untilEnded(`prepare-${generation}`)).toMatchObject({ state: 'succeeded' })
  }
  await worker.stop()
})
afterEach(async () => {
  world.registry.behave()
  await endAll()
})
afterAll(() => world.stop())

async function start(dataDir: string, killAt?: KillAt): Promise<StartedProcess> {
  const worker = await world.start(dataDir, killAt)
  running.push(worker)
  await world.untilThere(worker)
  return worker
}
async function endAll(): Promise<void> {
  for (const worker of running.splice(0)) await endNow(worker)
}

const pinned = ({ version, digest }: Version) => ({ uri: `${world.registry.host}/${repository}:${version}`, digest })
type Body = Readonly<{ op_id: string; generation: number; epoch: number; async: true; uri?: string; digest?: string }>
function send(kind: Kind, fields: Body): Promise<CommandReply> {
  const body = { backend: 'echo', ...fields }
  const [to, soon] = [{ node: world.node }, { timeoutMs: 5_000 }]
  if (kind === 'install') return world.bus.request(backendInstall, to, body, soon)
  return kind === 'upgrade' ? world.bus.request(backendUpgrade, to, body, soon) : world.bus.request(backendDelete, to, body, soon)
}

const kinds = {
  install: { wanted: first, from: () => world.origin(), before: [], after: [first] },
  upgrade: { wanted: third, from: () => upgraded, before: [second, first], after: [third, second] },
  delete: { wanted: null, from: () => upgraded, before: [second, first], after: [] },
} as const
type Kind = keyof typeof kinds

type Crashed = Readonly<{ kind: Kind; dataDir: string; body: Body }>

/** Until the process is gone. */
async function crash(kind: Kind, killAt: KillAt): Promise<Crashed> {
  const { wanted, from } = kinds[kind]
  const dataDir = await world.copyOf(from())
  const body: Body = { ...(wanted === null ? {} : pinned(wanted)), op_id: `op-${++ops}`, generation: 10, epoch: 1, async: true }
  const worker = await start(dataDir, killAt)
  // The answer may or may not get out before the process ends.
  const reply = send(kind, body).catch(() => null)
  await crashed(worker)
  expect((await Promise.race([reply, Promise.resolve(null)])) ?? { accepted: true }).toEqual({ accepted: true })
  return { kind, dataDir, body }
}

async function crashed(worker: StartedProcess): Promise<void> {
  expect(await worker.exited, worker.output()).toMatchObject({ signal: 'SIGKILL' })
}

/** The disk holds the old or the new version, and it is whole. */
async function expectNothingHalf({ kind, dataDir }: Crashed): Promise<void> {
  const { before, after } = kinds[kind]
  const disk = await readDisk(dataDir)
  expect(treesOf(versions)).toMatchObject(disk.trees)
  expect([before[0]?.digest ?? null, after[0]?.digest ?? null]).toContain(disk.current)
  if (disk.current !== null) expect(Object.keys(disk.trees)).toContain(hexOf(disk.current))
}

/** The next process brings it to its end; what the registry had to send for that, layer by layer. */
async function recover(work: Crashed): Promise<{ sent: Answers; status: OpStatusReply }> {
  const { kind, dataDir, body } = work
  const { wanted } = kinds[kind]
  const before = wanted === null ? [] : answersFor(world.registry, wanted)
  const since = (): Answers =>
    wanted === null ? [] : answersFor(world.registry, wanted).map((answers, at) => answers.slice(before[at]?.length))
  await start(dataDir)
  const status = await world.status(body.op_id)
  if (status.state === 'unknown') expect(await send(kind, body)).toEqual({ accepted: true })
  await expectRightEnd(work)
  const sent = since()
  await expectAnsweredFromJournal(work)
  expect(since()).toEqual(sent)
  return { sent, status }
}

async function expectRightEnd({ kind, dataDir, body }: Crashed): Promise<void> {
  const { after } = kinds[kind]
  const [current] = after
  const told = current === undefined ? {} : { digest: current.digest, version: current.version }
  expect(await world.untilEnded(body.op_id)).toEqual({ op_id: body.op_id, generation: 10, epoch: 1, state: 'succeeded', ...told })
  expect(await world.list()).toMatchObject(current === undefined ? [] : [{ name: 'echo', ...told }])
  await waitFor(async () => isDeepStrictEqual(await readDisk(dataDir), diskWith(after)), { what: 'a tidy disk' }).catch(() => undefined)
  expect(await readDisk(dataDir)).toEqual(diskWith(after))
}

async function expectAnsweredFromJournal({ kind, dataDir, body }: Crashed): Promise<void> {
  const requests = world.registry.requests.length
  const results = () => world.events.flatMap((event) => (event.type === 'op.result' && event.op_id === body.op_id ? [event.state] : []))
  await waitFor(() => results().length > 0, { what: 'the result to be told' })
  expect(await send(kind, body)).toEqual({ accepted: true })
  expect(await world.status(body.op_id)).toMatchObject({ state: 'succeeded', generation: 10 })
  expect(await send(kind, { ...body, epoch: 0 })).toMatchObject({ accepted: false, failure: { code: 'superseded' } })
  expect(await send(kind, { ...body, generation: 9 })).toMatchObject({ accepted: false, failure: { code: 'superseded' } })
  expect(await endsIn(dataDir, body.op_id)).toEqual(['succeeded'])
  expect(new Set(results())).toEqual(new Set(['succeeded']))
  expect(world.registry.requests.length).toBe(requests)
}

/** The answers that are still needed for each layer when so many bytes of it are kept. */
const restOf = ({ image }: Version, kept: readonly number[]): Answers =>
  image.layers.map(({ bytes }, at) => {
    const from = kept[at] ?? 0
    return from === bytes.length ? [] : [{ from, bytes: bytes.length - from }]
  })

/** The long layer stops in its second half, so that it is cut there whatever the others do. */
function stallWeights({ image }: Version): void {
  world.registry.on(image.layers[1]?.digest ?? '', { do: 'stall', atBytes: 900_000 }, 1)
}

/** Which time the step is reached, for each kind that reaches it. */
const steps: Readonly<Record<string, Partial<Record<Kind, readonly number[]>>>> = {
  'W.recv': { install: [1], upgrade: [1], delete: [1] },
  'W.journal.after': { install: [1], upgrade: [1], delete: [1] },
  'W.pull.manifest': { install: [1], upgrade: [1] },
  // The last time is in the middle of the long layer.
  'W.pull.mid_layer': { install: [1, 3], upgrade: [1, 2] },
  'W.pull.layer_verified': { install: [1, 3], upgrade: [1, 2] },
  'W.unpack.mid': { install: [1], upgrade: [1] },
  'W.unpack.done': { install: [1], upgrade: [1] },
  'W.swap.before': { install: [1], upgrade: [1], delete: [1] },
  'W.swap.between': { install: [1], upgrade: [1], delete: [1] },
  'W.swap.after': { install: [1], upgrade: [1], delete: [1] },
  // Trees before blobs: an upgrade leaves one of each behind, a delete two and four.
  'W.gc.mid': { upgrade: [1, 2], delete: [1, 4] },
  'W.reply.before': { install: [1], upgrade: [1], delete: [1] },
  'W.reply.after': { install: [1], upgrade: [1], delete: [1] },
}
const cells = Object.entries(steps).flatMap(([step, reached]) =>
  (['install', 'upgrade', 'delete'] as const).flatMap((kind) => (reached[kind] ?? []).map((nth) => ({ kind, step, nth }))),
)
/** One install that is killed at every step is always tested (below), so a short run takes upgrades and deletions here. */
const shortCells: typeof cells = [
  { kind: 'upgrade', step: 'W.recv', nth: 1 },
  { kind: 'install', step: 'W.pull.mid_layer', nth: 3 },
  { kind: 'upgrade', step: 'W.unpack.mid', nth: 1 },
  { kind: 'delete', step: 'W.swap.between', nth: 1 },
  { kind: 'upgrade', step: 'W.swap.after', nth: 1 },
  { kind: 'delete', step: 'W.gc.mid', nth: 4 },
  { kind: 'upgrade', step: 'W.reply.before', nth: 1 },
]

describe('a worker that was killed', () => {
  it.each(isLongRun ? cells : shortCells)(
    'E1 during $kind at $step, time $nth, comes back and brings it to its one right end',
    async ({ kind, step, nth }) => {
      const { wanted } = kinds[kind]
      const isMidway = step === 'W.pull.mid_layer' && nth > 1
      if (isMidway && wanted !== null) stallWeights(wanted)
      const work = await crash(kind, { step, nth })
      await expectNothingHalf(work)
      const kept = wanted === null ? [] : await keptBytes(work.dataDir, wanted)
      if (isMidway) expect(kept[1]).toBeGreaterThanOrEqual(750_000)
      if (isMidway) expect(kept[1]).toBeLessThanOrEqual(900_000)
      const { sent, status } = await recover(work)
      // Nobody heard of what was only received. Of anything else it knows, and what has ended stays so.
      if (step === 'W.recv') expect(status.state).toBe('unknown')
      else expect(step.startsWith('W.reply') ? ['succeeded'] : ['accepted', 'running', 'succeeded']).toContain(status.state)
      if (wanted !== null) expect(sent).toEqual(restOf(wanted, kept))
    },
  )

  it('E1 at each step in turn, during one install, still fetches every byte once', async () => {
    const [begun, ...others] = Object.keys(steps).filter((step) => step !== 'W.recv' && steps[step]?.install !== undefined)
    const work = await crash('install', { step: begun ?? '' })
    // After its end nobody takes it up again, so that the last step can't come.
    for (const step of others.slice(0, -1)) {
      const kept = await keptBytes(work.dataDir, first)
      const before = answersFor(world.registry, first)
      const worker = await world.start(work.dataDir, { step })
      running.push(worker)
      await crashed(worker)
      await expectNothingHalf(work)
      for (const [at, rest] of restOf(first, kept).entries()) {
        const began = (answersFor(world.registry, first)[at] ?? []).slice(before[at]?.length).map(({ from }) => from)
        expect([[], rest.map(({ from }) => from)]).toContainEqual(began)
      }
    }
    const { sent, status } = await recover(work)
    expect(status.state).toBe('succeeded')
    expect(sent.flat()).toEqual([])
  })

  it('E1 E21 keeps the download of one install when another one ends first', async () => {
    const work = await crash('install', { step: 'W.pull.layer_verified', nth: 3 })
    world.registry.on(`manifests/${first.digest}`, { do: 'hang' }, 1)
    const requests = world.registry.requests.length
    await start(work.dataDir)
    await waitFor(() => world.registry.requests.slice(requests).some(({ path }) => path.includes(first.digest)), { what: 'it to go on' })
    const other = { backend: 'other', ...pinned(third), op_id: `op-${++ops}`, generation: 20, epoch: 1, async: true } as const
    await world.bus.request(backendInstall, { node: world.node }, other, { timeoutMs: 60_000 })
    expect(await world.untilEnded(other.op_id)).toMatchObject({ state: 'succeeded' })
    const before = answersFor(world.registry, first)
    world.registry.dropConnections()
    expect(await world.untilEnded(work.body.op_id)).toMatchObject({ state: 'succeeded', digest: first.digest })
    expect(answersFor(world.registry, first)).toEqual(before)
    expect((await readDisk(work.dataDir)).trees).toEqual(treesOf([first, third]))
  })
})

/** Data that was not synced is lost. */
describe('a worker whose machine lost its power', () => {
  const weights = first.image.layers[1]?.digest ?? ''
  const incoming = ({ dataDir }: Crashed): string => join(dataDir, 'backends/incoming', hexOf(weights))
  const journal = ({ dataDir }: Crashed): string => join(dataDir, 'operations/journal')
  const cutLastLine = async (path: string): Promise<void> => truncate(path, (await readFile(path)).length - 5)
  const midway = async (): Promise<Crashed> => {
    stallWeights(first)
    return await crash('install', { step: 'W.pull.mid_layer', nth: 3 })
  }

  it('E3 E7 goes on from where the file of a download ends now', async () => {
    const work = await midway()
    await truncate(incoming(work), 100_000)
    const kept = await keptBytes(work.dataDir, first)
    expect(kept[1]).toBe(100_000)
    expect((await recover(work)).sent).toEqual(restOf(first, kept))
  })

  it('E3 fetches a layer again if its last bytes were not written', async () => {
    const work = await midway()
    const bytes = await readFile(incoming(work))
    await writeFile(incoming(work), bytes.fill(0, 300_000))
    const kept = await keptBytes(work.dataDir, first)
    const [base, rest, top] = restOf(first, kept)
    const [, whole = []] = restOf(first, [])
    expect((await recover(work)).sent).toEqual([base, [...(rest ?? []), ...whole], top])
  })

  it('E3 never accepted a command whose line in the journal is torn', async () => {
    const work = await crash('install', { step: 'W.journal.after' })
    await cutLastLine(journal(work))
    expect((await recover(work)).status.state).toBe('unknown')
  })

  it.each(sampleCases(['install', 'upgrade', 'delete'] as const, 2))(
    'E3 finds %s done whose end in the journal is torn, and fetches nothing',
    async (kind) => {
      const work = await crash(kind, { step: 'W.reply.before' })
      await cutLastLine(journal(work))
      const { sent } = await recover(work)
      expect(sent.flat()).toEqual([])
    },
  )
})
