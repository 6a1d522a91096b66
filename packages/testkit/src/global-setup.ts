// Prepares the integration tests of a run: one PostgreSQL server with a migrated template, one browser, the bundled programs,
// the assembled backends and the web page, which every controller of the first tests would otherwise build at once.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { silentLog } from '@muster/host'
import { connectDatabase } from '../../controller/src/store/connect.ts'
import { migrate } from '../../controller/src/store/migrate.ts'
import { startSharedBrowser } from './browser.ts'
import { bundlePrograms } from './bundle-programs.ts'
import { administer, startSharedPostgres } from './postgres.ts'
import { createProcesses } from './processes.ts'
import { migratedTemplate } from './test-database.ts'

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
  const browser = await startSharedBrowser()
  process.env['TEST_BROWSER'] = browser.endpoint
  const postgres = await startSharedPostgres()
  await makeMigratedTemplate(postgres.url)
  project.provide('postgresUrl', postgres.url)
  return async () => {
    await browser.stop()
    await postgres.stop()
  }
}

async function makeMigratedTemplate(serverUrl: string): Promise<void> {
  await administer(serverUrl, (client) => client.query(`create database ${migratedTemplate}`))
  const url = new URL(serverUrl)
  url.pathname = `/${migratedTemplate}`
  const { pool, close } = connectDatabase({ to: { url: url.href }, applicationName: 'template', log: silentLog })
  try {
    const directory = join(import.meta.dirname, '../../controller/src/store/migrations')
    await migrate({ pool, directory, log: silentLog, afterwards: async () => undefined })
  } finally {
    await close()
  }
}
