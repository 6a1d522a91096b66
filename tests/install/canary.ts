// A fingerprint of a data directory and its surroundings, to prove that nothing else was touched (I19).
import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Files beside the data directory, named as those who break out would name them. */
export async function plantCanary(directory: string): Promise<void> {
  for (const name of ['outside', 'x', 'etc', 'a', 'target']) {
    await mkdir(join(directory, 'canary', name), { recursive: true })
    await writeFile(join(directory, 'canary', name, 'passwd'), `of ${name}`)
    await chmod(join(directory, 'canary', name, 'passwd'), 0o640)
  }
}

/** Everything below a directory (kinds, modes, targets, contents) as one hash per path. */
export async function fingerprint(directory: string, except: readonly string[] = []): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const name of await readdir(directory, { recursive: true })) {
    if (except.some((prefix) => name === prefix || name.startsWith(`${prefix}/`))) continue
    const path = join(directory, name)
    const stats = await lstat(path).catch(() => null)
    if (stats === null) continue
    const content = stats.isSymbolicLink() ? await readlink(path) : stats.isFile() ? sha256(await readFile(path)) : ''
    found[name] = `${stats.mode.toString(8)} ${content}`
  }
  return found
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
