// A LocalAI site as the importer sees it, from a data directory or from the API of a running instance. Every value was parsed and
// bounded by its reader; nothing here was decided yet.
import type { Secret, TranslatedGallery } from '@muster/host'

export type Mapping = Readonly<Record<string, unknown>>

/** A sentence about a part of the site that is not imported. */
export interface Loss {
  /** The file, the route or the model that it is about. */
  readonly about: string
  /** The key of a configuration; empty for other losses. */
  readonly key: string
  readonly message: string
}

/** A file that LocalAI installed from a gallery, with its source. */
export interface RecordedFile {
  readonly filename: string
  readonly uri: string
  /** Empty: not checked. */
  readonly sha256: string
}

export interface SiteModel {
  /** The file or the route that describes it. */
  readonly from: string
  readonly source: Mapping
  /** From the record of its installation; empty for a model that was written by hand. */
  readonly files: readonly RecordedFile[]
}

/** A rule of scheduling, in LocalAI's keys. */
export type SiteRule = Readonly<{ from: string; rule: Mapping }>

export interface SiteNode {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly vramBudget: string | null
}

/** The files below the models directory, by their path from there. Empty for a running instance. */
export interface LocalFiles {
  /** Size in bytes. */
  readonly sizes: ReadonlyMap<string, number>
  /** Folders that have files, at any depth. */
  readonly folders: ReadonlySet<string>
  /** Repositories of Hugging Face that LocalAI fetched, by owner/name. */
  readonly listings: ReadonlyMap<string, RepositoryListing>
  /** Templates: the text of NAME.tmpl by NAME. */
  readonly templates: ReadonlyMap<string, string>
  /** The path to open; throws for a file that is not, or no longer, inside the directory. */
  locate(filename: string): Promise<string>
}

/** The files of a repository at a commit. */
export interface RepositoryListing {
  readonly commit: string
  readonly files: readonly Readonly<{ path: string; size: number; sha256: string | null }>[]
}

export interface Site {
  /** The directory or the URL. */
  readonly from: string
  readonly models: readonly SiteModel[]
  readonly local: LocalFiles
  readonly galleries: readonly (TranslatedGallery & Readonly<{ kind: 'model' | 'backend' }>)[]
  readonly backends: readonly string[]
  readonly rules: readonly SiteRule[]
  readonly nodes: readonly SiteNode[]
  readonly keys: readonly Secret[]
  /** Values of the server that fill what a model leaves out: threads, context_size, f16. */
  readonly defaults: Mapping
  readonly losses: readonly Loss[]
}

export const noLocalFiles: LocalFiles = {
  sizes: new Map(),
  folders: new Set(),
  listings: new Map(),
  templates: new Map(),
  locate: async (filename) => Promise.reject(new Error(`${filename} is not on this machine`)),
}

/** `a`, `a/b` of `a/b/c`. */
export const foldersOf = (names: Iterable<string>): Set<string> =>
  new Set(
    [...names].flatMap((name) => name.split('/').flatMap((_, depth, parts) => (depth === 0 ? [] : [parts.slice(0, depth).join('/')]))),
  )

export const isMapping = (value: unknown): value is Mapping => typeof value === 'object' && value !== null && !Array.isArray(value)
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const namesIn = (value: unknown): string[] => listOf(value).filter((each) => typeof each === 'string')

export function readRecordedFiles(value: unknown): RecordedFile[] {
  return listOf(value)
    .filter(isMapping)
    .map(({ filename, uri, sha256 }) => ({ filename: textOf(filename), uri: textOf(uri), sha256: textOf(sha256).toLowerCase() }))
    .filter(({ filename }) => filename !== '')
}
