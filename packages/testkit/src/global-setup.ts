// One PostgreSQL server for all integration tests of a run; each test file makes its own database in it.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    /** Address of the shared server, as the user who may create databases. */
    postgresUrl: string
  }
}

interface SharedPostgres {
  readonly url: string
  stop(): Promise<void>
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const file = join(import.meta.dirname, 'postgres.ts')
  if (!existsSync(file)) return () => Promise.resolve()
  const { startSharedPostgres }: { startSharedPostgres: () => Promise<SharedPostgres> } = await import(file)
  const postgres = await startSharedPostgres()
  project.provide('postgresUrl', postgres.url)
  return () => postgres.stop()
}
