import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { NodeId, Registration } from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { countByStatus } from '../nodes/view.ts'
import { connectDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import { NodeStore } from './nodes.ts'
import type { Database } from './tables.ts'

let database: Awaited<ReturnType<typeof createTestDatabase>>
let connection: ReturnType<typeof connectDatabase<Database>>
let nodes: NodeStore

beforeAll(async () => {
  database = await createTestDatabase()
  connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('./migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  nodes = new NodeStore(connection.db)
})
afterAll(async () => {
  await connection.close()
  await database.drop()
})
beforeEach(() => sql`delete from nodes`.execute(connection.db))

let made = 0
async function put(pulse: { liveness: string; answering: string; approved?: boolean; draining?: boolean }): Promise<NodeId> {
  made += 1
  const id = NodeId.parse(`n-${made}`)
  const key = `U${String.fromCodePoint(64 + made).repeat(55)}`
  const { approved = true, draining = false } = pulse
  await nodes.insert(id, Registration.parse({ name: 'n', public_key: key, incarnation: 'i' }), {
    approvedBy: approved ? 'test' : null,
    signedAt: new Date(),
  })
  await nodes.setDraining(id, draining)
  const { liveness, answering } = pulse
  await sql`update node_pulses set liveness = ${liveness}, answering = ${answering}, last_seen_at = now() where node_id = ${id}`.execute(
    connection.db,
  )
  return id
}

it('nodes are counted by their status', async () => {
  await put({ liveness: 'present', answering: 'yes' })
  await put({ liveness: 'present', answering: 'yes' })
  await put({ liveness: 'present', answering: 'yes', draining: true })
  await put({ liveness: 'present', answering: 'no' })
  await put({ liveness: 'silent', answering: 'yes', draining: true })
  await put({ liveness: 'left', answering: 'yes' })
  await put({ liveness: 'present', answering: 'yes', approved: false })
  expect(await countByStatus(nodes)).toEqual({ healthy: 2, draining: 1, unhealthy: 2, offline: 1, pending: 1 })
})

it('each node has one process that speaks for it, and one that is not known has none', async () => {
  const [one, two] = [await put({ liveness: 'present', answering: 'yes' }), await put({ liveness: 'silent', answering: 'no' })]
  await sql`update nodes set incarnation = 'another' where id = ${two}`.execute(connection.db)
  const found = await nodes.incarnationsOf([one, two, NodeId.parse('n-unknown')])
  expect(Object.fromEntries(found)).toEqual({ [one]: 'i', [two]: 'another' })
  expect(await nodes.incarnationsOf([])).toEqual(new Map())
})

describe('an edit of labels', () => {
  it('that comes to nothing leaves them as they were', async () => {
    const id = await put({ liveness: 'present', answering: 'yes' })
    expect(await nodes.editLabels(id, () => ({ a: 'x' }))).toMatchObject({ labelOverrides: { a: 'x' } })
    expect(await nodes.editLabels(id, () => null)).toMatchObject({ labelOverrides: { a: 'x' } })
    expect(await nodes.find(id)).toMatchObject({ labelOverrides: { a: 'x' } })
  })
})
