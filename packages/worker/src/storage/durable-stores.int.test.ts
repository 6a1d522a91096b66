// The order of the file calls of every store that a worker makes promises on: nothing is promised that a power cut can lose.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { checkDisk, makeTempDir, type DiskReport, type FileCall, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const run = promisify(execFile)
const recorder = new URL('../../../testkit/src/record-files.ts', import.meta.url)
const child = fileURLToPath(new URL('../../test/durable-stores-child.ts', import.meta.url))

const promises = [
  'the key of the node',
  'the record of the node',
  'a secret of the data directory',
  'an accepted command',
  'the result of an operation',
  'a shortened journal',
  'an entry after it',
  'a blob',
  'an unpacked tree',
  'an imported tree',
  'a repaired tree',
  'the record of an activated version',
  'the record of an upgrade',
  'the record without a previous version',
  'the removal of a backend',
  'the record of a replica',
  'an uploaded file',
  'the files of a model',
  'the removal of a model',
]

/** Unfinished work, claims of processes, and marks that cost a download or a verification when they are lost. */
const mayBeLost = (path: string): boolean => /\/(staging|incoming|pulls|locks)\/|\/damaged$/.test(path)

let temp: TempDir
let report: DiskReport
beforeAll(async () => {
  temp = await makeTempDir('durable')
  const [trace, root] = [join(temp.path, 'trace'), join(temp.path, 'worker')]
  await run(process.execPath, ['--import', recorder.href, child, root], { env: { ...process.env, MUSTER_FILE_TRACE: trace } })
  const calls = (await readFile(trace, 'utf8'))
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as FileCall)
  report = checkDisk(calls, { root: join(root, 'data'), mayBeLost })
})
afterAll(() => temp.remove())

describe('E3 after a power cut', () => {
  it.each(promises)('%s is on the disk when it is reported', (name) => {
    expect(report.promises.get(name)).toEqual([])
  })

  it('no file or directory has its name without its content', () => {
    expect(report.renames).toEqual([])
  })
})
