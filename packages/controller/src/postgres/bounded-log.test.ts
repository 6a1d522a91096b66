import { appendFileSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { cutLog, readLogSince } from './bounded-log.ts'

let dir: string
let path: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'muster-log-'))
  path = join(dir, 'postgres.log')
})
afterEach(() => rmSync(dir, { recursive: true }))

it('keeps the newest whole lines of a large log while the server writes', async () => {
  const writer = openSync(path, 'a')
  const line = (n: number) => `line ${String(n).padStart(7, '0')} ${'x'.repeat(80)}\n`
  const lines = Array.from({ length: 80_000 }, (_, n) => line(n))
  writeSync(writer, lines.join(''))
  await cutLog(path)
  writeSync(writer, 'the last\n')
  closeSync(writer)
  expect(statSync(path).size).toBeLessThan(2_100_000)
  const kept = readFileSync(path, 'utf8').split('\n')
  expect(kept.slice(-3)).toEqual([line(79_999).trim(), 'the last', ''])
  expect(kept[0]).toMatch(/^line \d{7} x+$/)
})

it('leaves a small log alone', async () => {
  appendFileSync(path, 'one\ntwo\n')
  await cutLog(path)
  expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n')
  expect(await readLogSince(path, 4)).toBe('two')
})
