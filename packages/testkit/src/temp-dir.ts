// A directory that is gone after the test.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TempDir extends AsyncDisposable {
  readonly path: string
  remove(): Promise<void>
}

export async function makeTempDir(name = 'test'): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), `muster-${name}-`))
  // Retries: a process that was just ended may still be writing its last file.
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 })
  return { path, remove, [Symbol.asyncDispose]: remove }
}
