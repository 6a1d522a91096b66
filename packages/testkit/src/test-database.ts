// Gives each test a database of its own, copied in some 50 ms from a template that has the schema already.
import { createHash } from 'node:crypto'
import { newId } from '@muster/host'
import { inject } from 'vitest'
import { administer } from './postgres.ts'

export interface Template {
  /** Changes with the content: an existing template of this name is reused. */
  readonly name: string
  /** Fills an empty database; leaves no connection open. */
  readonly prepare: (url: string) => Promise<void>
}

export interface TestDatabase extends AsyncDisposable {
  readonly name: string
  readonly url: string
  /** Not necessary: it goes with the server. */
  drop(): Promise<void>
}

export interface TestDatabaseOptions {
  /** The shared server by default. */
  readonly serverUrl?: string
  /** `migrated`, the default on the shared server, has the schema; `empty` has nothing. */
  readonly template?: Template | 'migrated' | 'empty'
}

/** Global setup fills this database of the shared server before any test runs. */
export const migratedTemplate = 'template_migrated'

export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { serverUrl = inject('postgresUrl'), template } = options
  const from = await findTemplate(serverUrl, template)
  const name = `test_${newId()}`
  await administer(serverUrl, (client) => client.query(`create database ${name}${from === null ? '' : ` template ${from}`}`))
  const drop = async (): Promise<void> => {
    await administer(serverUrl, (client) => client.query(`drop database if exists ${name} with (force)`))
  }
  return { name, url: onDatabase(serverUrl, name), drop, [Symbol.asyncDispose]: drop }
}

async function findTemplate(serverUrl: string, template: TestDatabaseOptions['template']): Promise<string | null> {
  if (template === 'empty') return null
  if (typeof template === 'object') return await provideTemplate(serverUrl, template)
  return template === 'migrated' || isShared(serverUrl) ? migratedTemplate : null
}

/** Programs outside of vitest (bench, chaos) have no shared server. */
function isShared(serverUrl: string): boolean {
  try {
    return serverUrl === inject('postgresUrl')
  } catch {
    return false
  }
}

/** Test files run in several processes at once: a lock makes one of them build it, and it gets its name when it is whole. */
async function provideTemplate(serverUrl: string, { name, prepare }: Template): Promise<string> {
  const template = `template_${createHash('sha256').update(name).digest('hex').slice(0, 32)}`
  await administer(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock(hashtext($1))', [template])
    const found = await client.query('select from pg_database where datname = $1', [template])
    if (found.rowCount !== 0) return
    const draft = `draft_${newId()}`
    await client.query(`create database ${draft}`)
    await prepare(onDatabase(serverUrl, draft))
    await client.query(`alter database ${draft} rename to ${template}`)
  })
  return template
}

function onDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}
