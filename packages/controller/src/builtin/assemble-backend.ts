// A backend and its packages → directories that run by `node` alone, one for each platform. The same bytes wherever it is
// done: nothing in them says where or when.
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import type { Assemblable } from './assembly.ts'
import { bundlePackage, type Bundle } from './bundle-package.ts'

const Package = z.object({ name: z.string(), version: z.string(), license: z.string().default('') })

/** `to`: where the directory of a platform is made. */
export async function assembleBackend(backend: Assemblable, to: (platform: string) => string): Promise<void> {
  const bundle = await bundlePackage(backend)
  const notices = await noticesOf(bundle.packages)
  for (const platform of backend.platforms) {
    const directory = to(platform.name)
    await writeOwn(backend, directory)
    await writeBundle(backend, { bundle, directory })
    await copyTree(join(backend.root, 'node_modules', platform.package), join(directory, 'node_modules', platform.package))
    await writeFile(join(directory, 'THIRD-PARTY-NOTICES'), notices)
  }
}

/** What is at the top, but how it is assembled: no package.json, and no directories. */
async function writeOwn({ directory }: Assemblable, to: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.isFile() && entry.name !== 'package.json') await copy(join(directory, entry.name), join(to, entry.name))
  }
}

async function writeBundle({ root, assembly }: Assemblable, { bundle, directory }: { bundle: Bundle; directory: string }): Promise<void> {
  const from = join(root, 'node_modules', assembly.bundle)
  const to = join(directory, 'node_modules', assembly.bundle)
  const { name, version, license } = Package.parse(JSON.parse(await readFile(join(from, 'package.json'), 'utf8')))
  // As deep as the module that it begins with was: it finds what it reads by where it is itself.
  await mkdir(join(to, 'dist'), { recursive: true })
  await writeFile(join(to, 'dist', 'index.js'), bundle.code)
  await writeFile(join(to, 'package.json'), JSON.stringify({ name, version, license, type: 'module', exports: './dist/index.js' }))
  for (const kept of assembly.keep) await copyTree(join(from, kept), join(to, kept))
}

async function copyTree(from: string, to: string): Promise<void> {
  if ((await stat(from)).isFile()) return await copy(from, to)
  for (const name of await readdir(from)) await copyTree(join(from, name), join(to, name))
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  await copyFile(from, to)
}

/** Every licence in the bundle asks for it. */
async function noticesOf(packages: readonly string[]): Promise<string> {
  const parts = []
  for (const directory of packages) {
    const { name, version, license } = Package.parse(JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')))
    const files = (await readdir(directory)).filter((file) => /^(?:licen[cs]e|copying|notice)/i.test(basename(file))).toSorted()
    const texts = await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')))
    parts.push({ title: `${name} ${version}`, text: [`${name} ${version} (${license})`, ...texts.map((text) => text.trim())].join('\n\n') })
  }
  const sorted = parts.toSorted((a, b) => (a.title < b.title ? -1 : 1)).map(({ text }) => text)
  return `${sorted.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`
}
