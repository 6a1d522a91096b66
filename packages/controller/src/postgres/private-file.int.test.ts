import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { checkDisk, makeTempDir, type FileCall } from '@muster/testkit'
import { expect, it } from 'vitest'

const run = promisify(execFile)
const recorder = new URL('../../../testkit/src/record-files.ts', import.meta.url).href
const tested = new URL('./private-file.ts', import.meta.url).href

it('E3 the file that names the database is on the disk when its creation is reported', async () => {
  await using temp = await makeTempDir('private')
  const [trace, path] = [join(temp.path, 'trace'), join(temp.path, 'location.json')]
  const script = `
    import { recordPromise } from '${recorder}'
    import { createPrivateFile, writePrivateFile } from '${tested}'
    await createPrivateFile('${path}', 'one')
    recordPromise('created', ['${path}'])
    await writePrivateFile('${path}', 'two')
    recordPromise('replaced', ['${path}'])`
  const args = ['--import', recorder, '--input-type=module', '-e', script]
  await run(process.execPath, args, { env: { ...process.env, MUSTER_FILE_TRACE: trace } })
  const calls = (await readFile(trace, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as FileCall)
  const report = checkDisk(calls, { root: temp.path, mayBeLost: () => false })
  expect(report).toEqual({
    renames: [],
    promises: new Map([
      ['created', []],
      ['replaced', []],
    ]),
  })
})
