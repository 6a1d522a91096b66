import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog } from '@muster/host'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { openHome } from './home.ts'

it.skipIf(process.getuid?.() !== 0)('a first start ignores damaged files of another data directory', async () => {
  await using directory = await makeTempDir('home')
  const [dataDir, systemBase] = [join(directory.path, 'data'), join(directory.path, 'base')]
  await mkdir(join(systemBase, 'damaged'), { recursive: true, mode: 0o755 })
  await mkdir(dataDir)
  await writeFile(join(systemBase, 'damaged', 'owner.json'), '{"data_d')
  const warned: unknown[] = []
  const home = await openHome({ dataDir, systemBase, log: { ...silentLog, warn: (_, fields) => void warned.push(fields) } })
  expect(home.dir.startsWith(systemBase)).toBe(true)
  expect(warned).toMatchObject([{ path: join(systemBase, 'damaged') }])
})
