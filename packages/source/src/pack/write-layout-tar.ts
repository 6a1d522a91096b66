// An OCI image layout as one file, as `skopeo copy oci-archive:…` and others read it.
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { temporaryName } from '@muster/host'
import { writeTar } from './tar-writer.ts'
import { walkDirectory } from './walk-directory.ts'

/** The file is there whole or not at all. */
export async function writeLayoutTar(layout: string, path: string, signal: AbortSignal): Promise<void> {
  const sources = await walkDirectory(layout, signal)
  const temporary = temporaryName(path)
  try {
    await pipeline(writeTar(sources), createWriteStream(temporary, { flags: 'wx', mode: 0o644 }), { signal })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
