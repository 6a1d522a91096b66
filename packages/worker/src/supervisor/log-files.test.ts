import { appendFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { systemClock } from '@muster/host'
import { ReplicaId } from '@muster/protocol'
import { makeTempDir, waitFor } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { openLogFiles } from './log-files.ts'

const [r1, r2] = [ReplicaId.parse('r-1'), ReplicaId.parse('r-2')]
const world = async (limitBytes = 1000) => {
  const directory = await makeTempDir('logs')
  return { directory, logs: await openLogFiles({ directory: directory.path, clock: systemClock, log: recordingLog(), limitBytes }) }
}

describe('logs of processes', () => {
  it('returns the last lines, and cuts a line without an end', async () => {
    const { directory, logs } = await world()
    await using _ = directory
    await writeFile(logs.path(r1), `${Array.from({ length: 50 }, (_each, n) => `line ${n}`).join('\n')}\n`)
    expect((await logs.lastLines(r1)).at(0)).toBe('line 30')
    expect(await logs.lastLines(r1)).toHaveLength(20)
    await writeFile(logs.path(r1), 'x'.repeat(1_000_000))
    const [only, ...none] = await logs.lastLines(r1)
    expect([only?.length, none]).toEqual([1000, []])
    expect(await logs.lastLines(r2)).toEqual([])
  })

  it('adds a line of the worker to the output of the process', async () => {
    const { directory, logs } = await world()
    await using _ = directory
    await writeFile(logs.path(r1), 'output\n')
    await logs.append(r1, 'parameters odd have no effect')
    expect(await logs.lastLines(r1)).toEqual(['output', 'muster: parameters odd have no effect'])
  })

  it('F14 keeps files bounded while a process writes, and the newest output', async () => {
    const { directory, logs } = await world()
    await using _ = directory
    using held = new DisposableStack()
    held.use(logs.keepBounded(r1))
    for (const piece of ['a', 'b', 'c']) {
      await appendFile(logs.path(r1), `${piece.repeat(5_000)}${piece === 'c' ? '' : '\n'}`)
      await waitFor(async () => (await logs.size(r1)) === 0, { what: 'the file to be cut' })
    }
    // The log is emptied before its copy gets its name.
    const names = async (): Promise<string> => (await readdir(directory.path)).toSorted().join(' ')
    await waitFor(async () => (await names()) === 'r-1.log r-1.log.1 r-1.log.2', { what: 'two older files' })
    for (const name of ['r-1.log.1', 'r-1.log.2']) expect((await stat(join(directory.path, name))).size).toBeLessThanOrEqual(1000)
    await logs.remove(r1)
    expect(await readdir(directory.path)).toEqual([])
  })

  it('reads one log unchanged, and several each under its name', async () => {
    const { directory, logs } = await world()
    await using _ = directory
    await writeFile(logs.path(r1), 'one\n')
    await writeFile(logs.path(r2), 'two\n')
    const { signal } = new AbortController()
    expect(await text(logs.read(() => [r1], { follow: false, signal }))).toBe('one\n')
    expect(await text(logs.read(() => [r1, r2], { follow: false, signal }))).toBe('==> replica r-1 <==\none\n==> replica r-2 <==\ntwo\n')
  })

  it('follows new output, also after a truncation, until the reader is gone', async () => {
    const { directory, logs } = await world()
    await using _ = directory
    await writeFile(logs.path(r1), 'one\n')
    const reading = new AbortController()
    const stream = logs.read(() => [r1], { follow: true, signal: reading.signal })
    let seen = ''
    stream.setEncoding('utf8').on('data', (chunk: string) => (seen += chunk))
    await waitFor(() => seen === 'one\n', { what: 'the existing text' })
    await appendFile(logs.path(r1), 'two\n')
    await waitFor(() => seen === 'one\ntwo\n', { what: 'the new text' })
    await writeFile(logs.path(r1), '3\n')
    await waitFor(() => seen === 'one\ntwo\n3\n', { what: 'the text after the cut' })
    reading.abort()
    await waitFor(() => stream.readableEnded, { what: 'the end' })
  })
})
