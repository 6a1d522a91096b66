import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

type Answer = { ready?: true; released?: true; held?: boolean; message?: string }

let path: string
const children: ChildProcess[] = []

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), 'muster-data-dir-'))
})

afterEach(async () => {
  for (const child of children.splice(0)) await kill(child)
  await rm(path, { recursive: true, force: true })
})

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

async function start(role = 'controller') {
  const script = fileURLToPath(new URL('../test/data-dir-process.ts', import.meta.url))
  const child = spawn(process.execPath, [script, path, role], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (): Promise<Answer> => JSON.parse((await lines.next()).value ?? '{}')
  const ask = (word: 'open' | 'release'): Promise<Answer> => (child.stdin.write(`${word}\n`), answer())
  await answer()
  return { child, pid: child.pid ?? 0, open: () => ask('open'), release: () => ask('release') }
}

describe('a data directory', () => {
  it('has exactly one holder when two start at once, twenty times', async () => {
    const both = [await start(), await start()]
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all((round % 2 === 0 ? both : both.toReversed()).map((each) => each.open()))
      expect(answers.filter(({ held }) => held)).toHaveLength(1)
      await Promise.all(both.map((each) => each.release()))
    }
    expect(await readdir(join(path, 'locks'))).toEqual([])
  })

  it('has one holder when five start at once', async () => {
    const five = await Promise.all([1, 2, 3, 4, 5].map(() => start()))
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(five.map((each) => each.open()))
      expect(answers.filter(({ held }) => held)).toHaveLength(1)
      await Promise.all(five.map((each) => each.release()))
    }
  })

  it.each(['elder', 'younger'] as const)('in use is refused to the %s of two, naming the directory and the process', async (who) => {
    const [elder, younger] = [await start(), await start()]
    const [holder, other] = who === 'elder' ? [younger, elder] : [elder, younger]
    expect(await holder.open()).toEqual({ held: true })
    expect(await other.open()).toEqual({
      held: false,
      message: `the data directory ${path} is in use by process ${holder.pid} (controller): stop that, or choose another directory with --data-dir`,
    })
    expect(await readdir(join(path, 'locks'))).toHaveLength(1)
  })

  it('is free again after its holder was killed', async () => {
    const [holder, next] = [await start(), await start()]
    expect(await holder.open()).toEqual({ held: true })
    await kill(holder.child)
    expect(await next.open()).toEqual({ held: true })
    expect(await readdir(join(path, 'locks'))).toHaveLength(1)
  })

  it('is free again once it was released', async () => {
    const [first, second] = [await start(), await start()]
    await first.open()
    await first.release()
    expect(await second.open()).toEqual({ held: true })
  })

  it('can be shared by two roles', async () => {
    const [controller, worker] = [await start('controller'), await start('worker')]
    expect(await controller.open()).toEqual({ held: true })
    expect(await worker.open()).toEqual({ held: true })
  })
})
