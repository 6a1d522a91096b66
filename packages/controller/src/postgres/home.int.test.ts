import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog } from '@muster/host'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { openHome } from './home.ts'

it.skipIf(process.getuid?.() !== 0)(
  'a first start ignores damaged files of another data directory, and counts databases of removed ones',
  async () => {
    await using directory = await makeTempDir('home')
    const [dataDir, systemBase] = [join(directory.path, 'data'), join(directory.path, 'base')]
    await mkdir(join(systemBase, 'damaged'), { recursive: true, mode: 0o755 })
    await mkdir(dataDir)
    await writeFile(join(systemBase, 'damaged', 'owner.json'), '{"data_d')
    for (const id of ['a', 'b']) {
      await mkdir(join(systemBase, id))
      await writeFile(join(systemBase, id, 'owner.json'), JSON.stringify({ data_dir: join(directory.path, 'removed', id) }))
    }
    const warned: unknown[] = []
    const informed: unknown[] = []
    const log = {
      ...silentLog,
      warn: (_: string, fields: unknown) => void warned.push(fields),
      info: (_: string, fields: unknown) => void informed.push(fields),
    }
    const home = await openHome({ dataDir, systemBase, log })
    expect(home.dir.startsWith(systemBase)).toBe(true)
    expect(warned).toMatchObject([{ path: join(systemBase, 'damaged') }])
    expect(informed).toEqual([{ count: 2, first: join(systemBase, 'a') }])
  },
)
