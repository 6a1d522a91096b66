// Builds the web UI in the background and holds its files in memory.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import type { Clock, Log } from '@muster/host'
import { buildPage, type PageBuildDeps } from './page-build.ts'

/** Failures may be temporary: a full disk, a clone that is being updated. */
const retryMs = 30_000

export interface StartPageDeps extends PageBuildDeps {
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

export function startPage({ signal, clock, log, ...deps }: StartPageDeps): () => PageState {
  let page: PageState = { state: 'building' }
  const make = async (): Promise<void> => {
    while (page.state !== 'built' && !signal.aborted) {
      try {
        page = { state: 'built', files: await readPageFiles(await buildPage(deps, signal)) }
      } catch (error) {
        if (signal.aborted) return
        const message = error instanceof Error ? error.message : String(error)
        if (page.state !== 'failed' || page.message !== message) log.error('cannot build the web UI; retrying', { error })
        page = { state: 'failed', message }
        await clock.sleep(retryMs, signal).catch(() => undefined)
      }
    }
  }
  void make()
  return () => page
}

export interface PageFile {
  readonly type: string
  readonly etag: string
  /** The name contains a hash of the content, so browsers may cache it forever. */
  readonly isImmutable: boolean
  readonly bytes: Buffer
  readonly br: Buffer
  readonly gzip: Buffer
}
/** By path: `/assets/index-1a2b.js`. */
type PageFiles = ReadonlyMap<string, PageFile>

/** The UI is built after the first start of a new version. */
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

async function readPageFiles(directory: string): Promise<PageFiles> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile() && types[extname(entry.name)] !== undefined).map((e) => join(e.parentPath, e.name))
  return new Map(await Promise.all(paths.map(async (path) => [`/${relative(directory, path)}`, await readOne(path)] as const)))
}

async function readOne(path: string): Promise<PageFile> {
  const [bytes, br, gzip] = await Promise.all([readFile(path), readFile(`${path}.br`), readFile(`${path}.gz`)])
  const etag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}"`
  return { type: types[extname(path)] ?? '', etag, isImmutable: path.includes('/assets/'), bytes, br, gzip }
}
