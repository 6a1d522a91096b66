// A worker process that is killed, as kill -9 does, at each step between a command about a model and its end: the next
// start finds or ends every process, and there are never two for one replica.
import { join } from 'node:path'
import { createProcesses, makeTempDir, sampleCases, type ScriptedLife, type StartedProcess, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadOf, markedPids, startReplicas } from '../../test/replicas-world.ts'

const program = new URL('../../test/replicas-child.ts', import.meta.url).pathname
const processes = createProcesses()
let temp: TempDir
let root: string
let count = 0

beforeAll(async () => {
  temp = await makeTempDir('killed')
  root = join(temp.path, 'data')
  const first = await startReplicas({ temp, root, isFresh: true })
  await first.replicas.stop()
})
afterAll(async () => {
  await processes.stopAll()
  await temp.remove()
})

type DriverSpec = Readonly<{ killAt?: string; load?: { id: string; life?: ScriptedLife }; unload?: string }>

function start({ killAt, load, unload }: DriverSpec = {}): Promise<StartedProcess> {
  const order = load === undefined ? [] : ['--load', JSON.stringify(loadOf(load.id, load.life, { slot: 0 }))]
  return processes.start('node', {
    args: [
      program,
      root,
      ...order,
      ...(killAt === undefined ? [] : ['--kill-at', killAt]),
      ...(unload === undefined ? [] : ['--unload', unload]),
    ],
    env: { NODE_COMPILE_CACHE: join(temp.path, 'compiled') },
    stopTimeoutMs: 20_000,
  })
}
const newId = (): string => `r-${process.pid}-${(count += 1)}`
const saying = (type: string, id: string): RegExp =>
  new RegExp(`"type":"${type}"[^\\n]*"replica_id":"${id}"[^\\n]*|"replica_id":"${id}"[^\\n]*"type":"${type}"[^\\n]*`)
const until = 90_000

describe('a worker that is killed', () => {
  it.each(sampleCases(['W.spawn.after_fork', 'W.spawn.before', 'W.spawn.after_record', 'W.ready.before'], 2))(
    'F4 F5 I11 at %s has one process for the replica after its next start, and none after it was stopped',
    async (killAt) => {
      const id = newId()
      await (
        await start({ killAt, load: { id } })
      ).exited
      const left = await markedPids(id)
      expect(left).toHaveLength(killAt === 'W.spawn.before' ? 0 : 1)
      const next = await start()
      await next.waitForOutput(saying('replica.ready', id), until)
      const now = await markedPids(id)
      expect(now).toHaveLength(1)
      // A recorded process is still the same one; an unrecorded process is gone.
      if (killAt === 'W.ready.before') expect(now).toEqual(left)
      if (killAt === 'W.spawn.after_fork') expect(now).not.toEqual(left)
      await next.stop()
      expect(await markedPids(id)).toEqual([])
    },
  )

  it.each(sampleCases(['W.boot.mid_adopt', 'W.boot.before_adopt'], 1))('F4 at %s loses no process that serves', async (killAt) => {
    const id = newId()
    const first = await start({ load: { id } })
    await first.waitForOutput(saying('replica.ready', id), until)
    const serving = await markedPids(id)
    first.kill('SIGKILL')
    await first.exited
    await (
      await start({ killAt })
    ).exited
    expect(await markedPids(id)).toEqual(serving)
    const last = await start()
    await last.waitForOutput(saying('replica.ready', id), until)
    expect(await markedPids(id)).toEqual(serving)
    await last.stop()
    expect(await markedPids(id)).toEqual([])
  })

  it.each(sampleCases(['W.stop.after_term', 'W.stop.after_kill'], 1))(
    'F8 at %s ends at its next start what it was about to end',
    async (killAt) => {
      const id = newId()
      await (
        await start({ killAt, load: { id, life: { ignore_sigterm: true } }, unload: id })
      ).exited
      expect(await markedPids(id)).toHaveLength(killAt === 'W.stop.after_term' ? 1 : 0)
      const last = await start()
      expect((await last.waitForOutput(saying('replica.exited', id), until))[0]).toContain('"expected":true')
      expect(await markedPids(id)).toEqual([])
      await last.stop()
    },
  )

  it('F3 whose backend died too reports that at its next start', async () => {
    const id = newId()
    const first = await start({ load: { id } })
    await first.waitForOutput(saying('replica.ready', id), until)
    first.kill('SIGKILL')
    await first.exited
    for (const pid of await markedPids(id)) process.kill(pid, 'SIGKILL')
    const last = await start()
    expect((await last.waitForOutput(saying('replica.exited', id), until))[0]).toContain('"expected":false')
    await last.stop()
  })
})
