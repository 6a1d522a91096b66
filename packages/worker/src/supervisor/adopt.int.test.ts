// The start of a worker that finds processes and records. The processes are real, and were started by
// somebody else: by this test, as an earlier run of the worker would have.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { identifyProcess, type ProcessIdentity } from '@muster/host'
import { Digest } from '@muster/protocol'
import { boundMs, copyScriptedBackend, freePort, makeTempDir, waitFor, type ScriptedLife } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { askState, loadOf, replicaId, startReplicas, type ReplicasWorld, type WorldOptions } from '../../test/replicas-world.ts'
import { nodeId } from '../../test/operations-world.ts'
import type { Run, Stage } from './replica.pure.ts'

const quick = { pace: { graceMs: 500, leaveMs: 500 } }

interface Past extends AsyncDisposable {
  readonly root: string
  /** A process as an earlier run would have started it; listening, unless told otherwise. */
  start(id: string, life?: ScriptedLife, mark?: string): Promise<{ identity: ProcessIdentity; port: number }>
  note(id: string, stage: (run: (of: { identity: ProcessIdentity; port: number }) => Run) => Stage, more?: object): Promise<void>
  open(options?: WorldOptions): Promise<ReplicasWorld>
}

async function makePast(): Promise<Past> {
  const temp = await makeTempDir('past')
  const root = join(temp.path, 'data')
  const started: number[] = []
  // The backend is installed by a worker that has had its time.
  const first = await startReplicas({ temp, root, isFresh: true })
  await first.replicas.stop()
  const { digest } = first
  // Below the test's own directory, by which its processes are told from those of other tests.
  const earlier = join(temp.path, 'earlier')
  await copyScriptedBackend(earlier, { version: '1.0.0' })
  const run = ({ identity, port }: { identity: ProcessIdentity; port: number }): Run => ({
    process: identity,
    address: { kind: 'tcp', host: '127.0.0.1', port },
    digest,
    modelDirectory: root,
  })
  return {
    root,
    async start(id, life = {}, mark = createHash('sha256').update(root).digest('hex').slice(0, 32)) {
      const port = await freePort()
      const env = { MUSTER_REPLICA_ID: id, MUSTER_WORKER_ID: mark, MUSTER_MODEL_NAME: 'm', MUSTER_MODEL_OPTIONS: JSON.stringify(life) }
      const child = spawn(process.execPath, ['./server.mjs', '--addr', `127.0.0.1:${port}`], {
        cwd: earlier,
        env,
        detached: true,
        stdio: 'ignore',
      })
      const pid = child.pid ?? 0
      started.push(pid)
      if (life.never_listen !== true && life.start_delay_ms === undefined)
        await waitFor(async () => (await fetch(`http://127.0.0.1:${port}/scripted/state`)).ok, { what: 'the process to listen' })
      const identity = await waitFor(() => identifyProcess(pid), { what: 'its identity' })
      return { identity, port }
    },
    async note(id, stage, more = {}) {
      await mkdir(join(root, 'replicas'), { recursive: true })
      const record = {
        format: 1,
        node: nodeId,
        order: loadOf(id),
        isBare: false,
        opIds: [`op-${id}`],
        notedAt: 1,
        digest: null,
        listed: null,
        stage: stage(run),
        ...more,
      }
      await writeFile(join(root, 'replicas', `${id}.json`), JSON.stringify(record))
    },
    open: (options = {}) => startReplicas({ temp, root, ...quick, ...options }),
    async [Symbol.asyncDispose]() {
      for (const pid of started) if (identifyProcess(pid) !== null) process.kill(-pid, 'SIGKILL')
      await temp.remove()
    },
  }
}

const lives = ({ pid }: ProcessIdentity): boolean => identifyProcess(pid) !== null

describe('at its start a worker', () => {
  it('F4 adopts a ready process, serves it, and notices its exit at once', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    await past.note('r-1', (run) => ({ state: 'ready', run: run(earlier) }))
    await using world = await past.open()
    expect(world.replicas.running()).toMatchObject([{ replicaId: 'r-1', state: 'ready' }])
    await world.ready('r-1')
    expect(typeof world.replicas.admit(replicaId('r-1'))).toBe('object')
    expect(await askState(world, 'r-1')).toMatchObject({ pid: earlier.identity.pid })
    const at = performance.now()
    process.kill(earlier.identity.pid, 'SIGKILL')
    expect(await world.exited('r-1')).toMatchObject({ expected: false })
    expect(performance.now() - at).toBeLessThan(boundMs(1_000))
  })

  it('F4 E20 keeps the tree of an adopted process, also when the backend was removed', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    await past.note('r-1', (run) => ({ state: 'ready', run: run(earlier) }))
    await using world = await past.open()
    await world.store.deactivate(world.name('scripted'))
    await world.store.collect(new AbortController().signal)
    expect(await world.store.summary(world.digest)).not.toBeNull()
    await world.replicas.unload(replicaId('r-1'), { force: true })
    await world.exited('r-1')
    expect(lives(earlier.identity)).toBe(false)
  })

  it('F12 adopts a process that is too busy to answer', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    const busy = fetch(`http://127.0.0.1:${earlier.port}/v1/completions`, {
      method: 'POST',
      headers: { 'x-scripted': '{"block_ms":4000}' },
      body: '{}',
    })
    await past.note('r-1', (run) => ({ state: 'ready', run: run(earlier) }))
    await using world = await past.open()
    expect(world.replicas.running()).toMatchObject([{ state: 'ready' }])
    expect((await busy).status).toBe(200)
  })

  it('a process that became ready while the worker was down is ready at once', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    await past.note('r-1', (run) => ({ state: 'starting', run: run(earlier) }))
    await using world = await past.open()
    expect(await world.ready('r-1')).toMatchObject({ op_id: 'op-r-1' })
    expect(await world.pids('r-1')).toEqual([earlier.identity.pid])
  })

  it('F4 resumes a load whose process is gone or not ready, with one new process', async () => {
    await using past = await makePast()
    const dead = await past.start('r-1', { never_listen: true })
    const stuck = await past.start('r-2', { never_listen: true })
    process.kill(dead.identity.pid, 'SIGKILL')
    await past.note('r-1', (run) => ({ state: 'starting', run: run(dead) }))
    await past.note('r-2', (run) => ({ state: 'starting', run: run(stuck) }))
    await past.note('r-3', () => ({ state: 'accepted' }))
    await using world = await past.open()
    await Promise.all(['r-1', 'r-2', 'r-3'].map(world.ready))
    for (const id of ['r-1', 'r-2', 'r-3']) expect(await world.pids(id)).toHaveLength(1)
    expect(lives(stuck.identity)).toBe(false)
  })

  it('F5 I11 stops processes without a record, and leaves those of other workers alone', async () => {
    await using past = await makePast()
    const [orphan, forked, strange] = [await past.start('r-orphan'), await past.start('r-1'), await past.start('r-1', {}, 'another-worker')]
    // Killed between fork and record: the load is known, its process is not.
    await past.note('r-1', () => ({ state: 'staging' }))
    await using world = await past.open()
    expect([lives(orphan.identity), lives(forked.identity), lives(strange.identity)]).toEqual([false, false, true])
    await world.ready('r-1')
    expect(await world.pids('r-1')).toHaveLength(2)
  })

  it('F6 never stops a foreign process that has the PID of one of its own', async () => {
    await using past = await makePast()
    const stranger = await past.start('r-9', {}, 'another-worker')
    await past.note('r-1', (run) => ({ state: 'ready', run: run({ ...stranger, identity: { ...stranger.identity, started: '1' } }) }))
    await past.note('r-2', (run) => ({ state: 'stopping', run: run(stranger), end: null }))
    await using world = await past.open()
    expect(await world.exited('r-1')).toMatchObject({ expected: false })
    expect(await world.exited('r-2')).toMatchObject({ expected: true })
    expect(lives(stranger.identity)).toBe(true)
  })

  it('F10 stops its own process when another program has taken the port', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1', { never_listen: true })
    const thief = createServer().listen(earlier.port, '127.0.0.1')
    await past.note('r-1', (run) => ({ state: 'ready', run: run(earlier) }))
    await using world = await past.open()
    await world.exited('r-1')
    expect(lives(earlier.identity)).toBe(false)
    thief.close()
  })

  it('finishes an unload', async () => {
    await using past = await makePast()
    const [one, two] = [await past.start('r-1'), await past.start('r-2', { ignore_sigterm: true })]
    await past.note('r-1', (run) => ({ state: 'draining', run: run(one) }))
    await past.note('r-2', (run) => ({ state: 'stopping', run: run(two), end: null }))
    await using world = await past.open()
    for (const id of ['r-1', 'r-2']) expect(await world.exited(id)).toMatchObject({ expected: true })
    expect([lives(one.identity), lives(two.identity)]).toEqual([false, false])
  })

  it('leaves the records of a newer version untouched, and accepts no loads', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    await past.note('r-1', () => ({ state: 'accepted' }), { format: 2 })
    await using world = await past.open()
    expect(await world.replicas.load(loadOf('r-2'))).toMatchObject({
      failure: { code: 'incompatible', retry: 'backoff', message: /newer version/ },
    })
    expect(lives(earlier.identity)).toBe(true)
    expect(await readdir(join(past.root, 'replicas'))).toEqual(['r-1.json'])
  })

  it('of another node than before, stops the replicas of the earlier node', async () => {
    await using past = await makePast()
    const earlier = await past.start('r-1')
    await past.note('r-1', (run) => ({ state: 'ready', run: run(earlier) }), { node: 'n-other' })
    await past.note('r-2', () => ({ state: 'accepted' }), { node: 'n-other' })
    await using world = await past.open()
    await waitFor(async () => (await world.kept()).length === 0, { what: 'everything of it to go' })
    expect([lives(earlier.identity), world.replicas.running()]).toEqual([false, []])
    expect(Digest.parse(world.digest)).toBe(world.digest)
  })
})
