import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLog } from '@muster/host'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { providePrograms, removeOtherPrograms, type ServerPackage } from './programs.ts'

let top: string
let home: string
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'muster-programs-'))
  home = join(top, 'home')
  await mkdir(home)
})
afterEach(() => rm(top, { recursive: true }))

/** A package as npm installs it: no symbolic links, and with a strict umask not even readable for others. */
async function makePackage(version: string): Promise<ServerPackage> {
  const nativeDir = join(top, `package-${version}`, 'native')
  for (const dir of ['bin', 'lib/pkgconfig', 'share']) await mkdir(join(nativeDir, dir), { recursive: true, mode: 0o700 })
  for (const file of ['bin/postgres', 'lib/libpq.so.5.18', 'lib/libpq.a', 'share/errcodes.txt']) {
    await writeFile(join(nativeDir, file), version)
    await chmod(join(nativeDir, file), 0o600)
  }
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]
  await writeFile(join(nativeDir, 'pg-symlinks.json'), JSON.stringify(links))
  return { version, major: Number.parseInt(version, 10), nativeDir }
}

const provide = (available: ServerPackage | null) => providePrograms({ home, available, log: silentLog })

async function makeCluster(major: number): Promise<void> {
  await mkdir(join(home, 'data'))
  await writeFile(join(home, 'data', 'PG_VERSION'), `${major}\n`)
}

it('copies the programs so that another user can run them, with their symbolic links', async () => {
  const { dir } = await provide(await makePackage('18.4.0'))
  const modeOf = async (name: string) => (await stat(join(dir, name))).mode & 0o777
  expect([await modeOf('.'), await modeOf('lib'), await modeOf('bin/postgres'), await modeOf('share/errcodes.txt')]).toEqual([
    0o755, 0o755, 0o755, 0o644,
  ])
  expect(await readlink(join(dir, 'lib/libpq.so.5'))).toBe('libpq.so.5.18')
  expect(await readdir(join(dir, 'lib'))).toEqual(['libpq.so.5', 'libpq.so.5.18'])
})

it('uses an existing copy, and removes leftovers of a killed one', async () => {
  const found = await makePackage('18.4.0')
  const { dir } = await provide(found)
  await writeFile(join(dir, 'bin', 'postgres'), 'ours')
  await mkdir(`${dir}.partial-0123`)
  expect((await provide(found)).dir).toBe(dir)
  expect(await readFile(join(dir, 'bin', 'postgres'), 'utf8')).toBe('ours')
  expect(await readdir(home)).toEqual(['server-18.4.0'])
})

it('moves to a newer minor version, and then removes the old one', async () => {
  await provide(await makePackage('18.4.0'))
  await makeCluster(18)
  const newer = await provide(await makePackage('18.10.0'))
  expect(newer.dir).toBe(join(home, 'server-18.10.0'))
  await removeOtherPrograms(home, newer)
  expect((await readdir(home)).toSorted()).toEqual(['data', 'server-18.10.0'])
})

it('keeps the programs of a cluster when the package is of another major version, or missing', async () => {
  const old = await provide(await makePackage('18.4.0'))
  await makeCluster(18)
  expect(await provide(await makePackage('19.1.0'))).toEqual(old)
  expect(await provide(null)).toEqual(old)
})

it('explains the remedy when there are no programs', async () => {
  await expect(provide(null)).rejects.toThrow(/no embedded database for .* --database-url/)
  await makeCluster(17)
  await expect(provide(await makePackage('18.4.0'))).rejects.toThrow(/was created by PostgreSQL 17/)
})
