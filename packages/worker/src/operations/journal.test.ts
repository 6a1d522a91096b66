import { appendFile, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendName, OperationId, type Failure } from '@muster/protocol'
import { silentLog } from '@muster/host'
import { makeTempDir } from '@muster/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { type Entry, entryLine, headerLine, type Journal, openJournal } from './journal.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const undo of cleanup.splice(0).toReversed()) await undo()
})

async function place(): Promise<string> {
  const directory = await makeTempDir('journal')
  cleanup.push(directory.remove)
  return join(directory.path, 'operations', 'journal')
}

async function reopen(path: string, log = silentLog): Promise<{ journal: Journal; entries: readonly Entry[] }> {
  const opened = await openJournal({ path, log })
  if (opened.state !== 'open') throw new Error('newer')
  cleanup.push(() => opened.journal.close().catch(() => undefined))
  return opened
}

const order = (id: number): Entry => ({
  type: 'order',
  id,
  order: { kind: 'install', backend: BackendName.parse(`b-${id}`), generation: id, op_id: OperationId.parse(`op-${id}`) },
})
const failure: Failure = { code: 'cancelled', retry: 'never', message: 'on request' }

describe('the journal', () => {
  it('returns the appended entries in order', async () => {
    const path = await place()
    const { journal, entries } = await reopen(path)
    expect(entries).toEqual([])
    const said: Entry[] = [
      { type: 'boot', boot: 1 },
      order(0),
      { type: 'join', id: 0, op_id: OperationId.parse('op-x'), epoch: 4 },
      { type: 'cancel', id: 0, failure },
      { type: 'end', id: 0, boot: 1, outcome: { state: 'cancelled', failure } },
    ]
    for (const entry of said) await journal.append(entry)
    expect((await reopen(path)).entries).toEqual(said)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  it('a thousand appends at once all become durable, with far fewer writes than lines', async () => {
    const path = await place()
    const { journal } = await reopen(path)
    await Promise.all(Array.from({ length: 1000 }, (_, id) => journal.append(order(id))))
    expect(journal.lines()).toBe(1000)
    expect((await reopen(path)).entries).toHaveLength(1000)
  })

  it('E1 torn at any byte of its last line, it keeps all earlier lines and appends after them', async () => {
    const path = await place()
    const whole = headerLine + entryLine(order(1)) + entryLine(order(2))
    const from = headerLine.length + entryLine(order(1)).length
    await (await reopen(path)).journal.close()
    for (let cut = from; cut < whole.length; cut += 1) {
      await writeFile(path, whole.slice(0, cut))
      const { journal, entries } = await reopen(path)
      expect(entries).toEqual([order(1)])
      await journal.append(order(3))
      await journal.close()
      expect((await readFile(path)).toString()).toBe(headerLine + entryLine(order(1)) + entryLine(order(3)))
    }
  })

  it('skips a damaged line, logs it, and keeps the others', async () => {
    const path = await place()
    await (await reopen(path)).journal.close()
    const spoiled = entryLine(order(2)).replace('b-2', 'b-9')
    await writeFile(path, headerLine + entryLine(order(1)) + spoiled + entryLine(order(3)))
    const log = recordingLog()
    expect((await reopen(path, log)).entries).toEqual([order(1), order(3)])
    expect(log.lines).toMatchObject([{ level: 'error', fields: { lines: 1 } }])
  })

  it('E23 written by a newer version, it is refused and left untouched', async () => {
    const path = await place()
    await (await reopen(path)).journal.close()
    const newer = entryLine({ format: 2 } as never) + entryLine(order(1))
    await writeFile(path, newer)
    expect(await openJournal({ path, log: silentLog })).toEqual({ state: 'newer', format: 2, path })
    expect((await readFile(path)).toString()).toBe(newer)
  })

  it('skips an entry of an unknown kind', async () => {
    const path = await place()
    await (await reopen(path)).journal.close()
    await appendFile(path, entryLine({ type: 'hologram', id: 3 } as never) + entryLine(order(1)))
    expect((await reopen(path)).entries).toEqual([order(1)])
  })

  it('is replaced atomically, and later appends follow', async () => {
    const path = await place()
    const { journal } = await reopen(path)
    await Promise.all(Array.from({ length: 50 }, (_, id) => journal.append(order(id))))
    const rewritten = journal.rewrite(() => [order(49)])
    await Promise.all([rewritten, journal.append(order(50)), journal.append(order(51))])
    expect((await reopen(path)).entries).toEqual([order(49), order(50), order(51)])
    expect(journal.lines()).toBe(3)
  })

  it('E4 that cannot be written fails the command, and recovers later', async () => {
    const path = await place()
    const { journal } = await reopen(path)
    await journal.append(order(1))
    await journal.close()
    await expect(journal.append(order(2))).rejects.toMatchObject({ failure: { code: 'unavailable', retry: 'backoff' } })
    expect((await reopen(path)).entries).toEqual([order(1)])
  })

  it('an empty file, as a full disk leaves it, is an empty journal', async () => {
    const path = await place()
    await (await reopen(path)).journal.close()
    await truncate(path, 0)
    const { journal, entries } = await reopen(path)
    expect(entries).toEqual([])
    await journal.append(order(1))
    expect((await reopen(path)).entries).toEqual([order(1)])
  })
})
