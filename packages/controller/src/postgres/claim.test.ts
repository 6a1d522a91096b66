import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { identifyProcess } from '@muster/host'
import { failureOf } from '@muster/protocol'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { claimHome } from './claim.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'muster-claim-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

const claim = () => claimHome({ dir, dataDir: '/data' })

async function deadProcess() {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await once(child, 'spawn')
  const identity = identifyProcess(child.pid ?? 0)
  child.kill('SIGKILL')
  await once(child, 'exit')
  return identity
}

it('refuses a second holder while the first lives, and names it', async () => {
  await claim()
  const failure = await claim().catch(failureOf)
  expect(failure).toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(`/data is in use by the Muster process with pid ${process.pid}`) as unknown,
  })
})

it('can be taken again after it was released, with a higher number', async () => {
  await (await claim()).release()
  await (await claim()).release()
  expect(readdirSync(join(dir, 'holders'))).toEqual(['2.json'])
})

it('is taken over from a dead holder together with its server', async () => {
  const muster = await deadProcess()
  const server = { pid: 77, started: '1', boot: 'b' }
  await (await claim()).release()
  writeFileSync(join(dir, 'holders', '5.json'), JSON.stringify({ released: false, muster, server }))
  expect((await claim()).previousServer).toEqual(server)
})

it('gives a stale claim to exactly one of many concurrent processes', async () => {
  const muster = await deadProcess()
  await (await claim()).release()
  writeFileSync(join(dir, 'holders', '9.json'), JSON.stringify({ released: false, muster, server: null }))
  const results = await Promise.allSettled(Array.from({ length: 20 }, claim))
  expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1)
  expect(results.flatMap((result) => (result.status === 'rejected' ? [failureOf(result.reason).code] : []))).toEqual(
    Array(19).fill('conflict'),
  )
  expect(readdirSync(join(dir, 'holders'))).toEqual(['10.json'])
})

it('gives the next holder the last recorded server', async () => {
  const first = await claim()
  const server = { pid: 77, started: '1', boot: 'b' }
  await first.recordServer(server)
  await first.release()
  expect((await claim()).previousServer).toEqual(server)
})
