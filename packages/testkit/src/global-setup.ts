// One PostgreSQL server for all integration tests of a run; each test file makes its own database in it. And the backends
// that have to be assembled and the web page, which otherwise every controller of the first tests would do beside them.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { bundlePrograms } from './bundle-programs.ts'
import { startSharedPostgres } from './postgres.ts'
import { createProcesses } from './processes.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Address of the shared server, as the user who may create databases. */
    postgresUrl: string
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  for (const script of ['build-backends.ts', 'build-web.ts'])
    await promisify(execFile)(process.execPath, [join(import.meta.dirname, '../../../scripts', script)])
  // Fills the compile cache; otherwise each of the first processes would write the same files at its end.
  process.env['TEST_PROGRAMS'] = await bundlePrograms()
  await using processes = createProcesses()
  await (
    await processes.muster(['up', '--help'])
  ).exited
  const postgres = await startSharedPostgres()
  project.provide('postgresUrl', postgres.url)
  return () => postgres.stop()
}
