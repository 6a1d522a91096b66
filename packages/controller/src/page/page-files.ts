// The files of the web page in memory, each with its compressed forms and its headers.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'

export interface PageFile {
  readonly type: string
  readonly etag: string
  /** Its name has a hash of its content: a browser never has to ask again. */
  readonly isImmutable: boolean
  readonly bytes: Buffer
  readonly br: Buffer
  readonly gzip: Buffer
}
/** By path, as `/assets/index-1a2b.js`. */
export type PageFiles = ReadonlyMap<string, PageFile>

/** How far the page is: it is built after the start of a new version. */
export type PageState =
  | { readonly state: 'building' }
  | { readonly state: 'failed'; readonly message: string }
  | { readonly state: 'built'; readonly files: PageFiles }

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

export async function readPageFiles(directory: string): Promise<PageFiles> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile() && types[extname(entry.name)] !== undefined).map((e) => join(e.parentPath, e.name))
  return new Map(await Promise.all(paths.map(async (path) => [`/${relative(directory, path)}`, await readOne(path)] as const)))
}

async function readOne(path: string): Promise<PageFile> {
  const [bytes, br, gzip] = await Promise.all([readFile(path), readFile(`${path}.br`), readFile(`${path}.gz`)])
  const etag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}"`
  return { type: types[extname(path)] ?? '', etag, isImmutable: path.includes('/assets/'), bytes, br, gzip }
}
