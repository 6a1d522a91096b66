// Where a file of a model comes from when no other worker gives it: the one place that knows all kinds of sources.
import type { Clock } from '@muster/host'
import { FleetError, unreachable, type Digest } from '@muster/protocol'
import { locateFile, type FileOrigins, type OpenedStream, type Platform } from '@muster/source'
import type { BuiltinSource } from '../installer/builtin-source.ts'
import type { WaysOut } from '../ways-out.ts'
import { findLocalFile, openLocalFile } from './open-local-file.ts'
import type { WantedFile } from './wanted-files.ts'

/** `validator`: of what is here of it up to `offset`; null when that is not known, or need not be. */
export type OpenOrigin = (at: { readonly offset: number; readonly validator: string | null }) => Promise<OpenedStream>

export interface FileOrigin {
  /** What it is, where the source says so itself before it is fetched. */
  readonly digest: Digest | null
  readonly size: number | null
  /** Of the same content, asked in this order. */
  readonly mirrors: readonly OpenOrigin[]
}

export interface OriginDeps {
  readonly waysOut: () => WaysOut
  readonly builtin: Pick<BuiltinSource, 'images' | 'references'>
  readonly origins: FileOrigins
  /** Null: models may name no files of this machine. */
  readonly modelDir: string | null
  readonly platform: Platform
  readonly clock: Clock
}

export async function findOrigin(deps: OriginDeps, file: WantedFile, signal: AbortSignal): Promise<FileOrigin> {
  const { source } = file
  switch (source.kind) {
    case 'web':
    case 'hf':
    case 's3': {
      const { url, headers } = locateFile(source, deps)
      const how = headers === undefined ? { signal } : { signal, headers }
      return originWithoutDigest((at) => deps.waysOut().files.open(url, { ...at, ...how }))
    }
    case 'oci': {
      const { reference } = source
      const { oci } = deps.waysOut()
      const found = await oci.resolveFile({ reference, filename: file.filename, platform: deps.platform, signal })
      return { ...found, mirrors: [({ offset }) => oci.openBlob(reference, found.digest, { offset, signal })] }
    }
    case 'builtin': {
      const { digest } = source
      const mirrors = deps.builtin.references(file.uri).map(
        (reference): OpenOrigin =>
          ({ offset }) =>
            deps.builtin.images.openBlob(reference, digest, { offset, signal }),
      )
      return { digest, size: null, mirrors }
    }
    case 'file':
      return await findOnDisk(deps.modelDir, source.path)
    case 'upload':
      throw new FleetError({
        code: 'unavailable',
        retry: 'backoff',
        message: 'it was uploaded, and no node that has it answers: wait for one to return, or upload it again',
      })
    default:
      return unreachable(source)
  }
}

const originWithoutDigest = (open: OpenOrigin, size: number | null = null): FileOrigin => ({ digest: null, size, mirrors: [open] })

async function findOnDisk(modelDir: string | null, path: string): Promise<FileOrigin> {
  if (modelDir === null)
    throw refusal('invalid', `source_forbidden: ${path} is a file of the worker, and this worker has no --model-dir that it could be in`)
  const found = await findLocalFile(path, modelDir)
  if (found === null) throw refusal('not_found', `there is no ${path} on this machine`)
  // What was read of another file under that name is not continued.
  return originWithoutDigest(
    ({ offset, validator }) => openLocalFile(found, validator === null || validator === found.validator ? offset : 0),
    found.size,
  )
}

const refusal = (code: 'invalid' | 'not_found', message: string): FleetError => new FleetError({ code, retry: 'never', message })
