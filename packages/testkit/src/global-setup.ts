// One PostgreSQL server for all integration tests of a run; each test file makes its own database in it.
import type { TestProject } from 'vitest/node'
import { startSharedPostgres } from './postgres.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Address of the shared server, as the user who may create databases. */
    postgresUrl: string
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startSharedPostgres()
  project.provide('postgresUrl', postgres.url)
  return () => postgres.stop()
}
