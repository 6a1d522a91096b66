// Intents settled per second, beside the jobs of graphile-worker and pg-boss: the same PostgreSQL, which syncs every commit
// to disk, the same number of connections, each job claimed and finished alone (no batches anywhere). Muster runs twice.
// `intent`: claimed, done (as the others do). `whole life`: claimed, accepted by a worker, found by its result, done: the
// steps of a real install. Alternating; medians of several rounds. A disk that syncs slowly makes a round long, so no round
// begins after two minutes.
import { Logger, makeWorkerUtils, runOnce } from 'graphile-worker'
import { PgBoss } from 'pg-boss'
import { Pool } from 'pg'
import { createTestDatabase, administer, startTestPostgres } from '@muster/testkit'
import { silentLog } from '@muster/host'
import { BackendName, NodeId, OperationId, stepIntent, type IntentEvent } from '@muster/protocol'
import { connectDatabase } from '../packages/controller/src/store/connect.ts'
import { IntentStore, type ClaimedIntent } from '../packages/controller/src/store/intents.ts'
import { migrate } from '../packages/controller/src/store/migrate.ts'
import { nothingToFetch } from '../packages/controller/src/store/intent-rows.ts'
import type { Database } from '../packages/controller/src/store/tables.ts'
import { SubmissionStore, type Submission } from '../packages/controller/src/store/submissions.ts'

const jobs = Number(process.env['BENCH_JOBS'] ?? 500)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5)
const lastRoundAfterMs = 120_000
const concurrency = 10
const migrations = new URL('../packages/controller/src/store/migrations', import.meta.url).pathname

const quiet = new Logger(() => () => undefined)

type Contender = { readonly name: string; fill(): Promise<void>; drain(): Promise<void>; close(): Promise<void> }

await using postgres = await startTestPostgres({ durability: 'disk' })

async function graphile(): Promise<Contender> {
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const pgPool = new Pool({ connectionString: database.url, max: concurrency })
  const utils = await makeWorkerUtils({ pgPool, logger: quiet })
  await utils.migrate()
  return {
    name: 'graphile-worker',
    fill: async () => void (await utils.addJobs(Array.from({ length: jobs }, (_, at) => ({ identifier: 'noop', payload: { at } })))),
    drain: () => runOnce({ pgPool, concurrency, taskList: { noop: async () => undefined }, logger: quiet }),
    close: async () => {
      await utils.release()
      await pgPool.end()
      await database.drop()
    },
  }
}

async function pgBoss(): Promise<Contender> {
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const boss = new PgBoss({ connectionString: database.url, max: concurrency, supervise: false, schedule: false })
  await boss.start()
  await boss.createQueue('noop')
  return {
    name: 'pg-boss',
    fill: async () =>
      void (await boss.insert(
        'noop',
        Array.from({ length: jobs }, (_, at) => ({ data: { at } })),
      )),
    drain: () =>
      inLanes(async () => {
        const [job] = await boss.fetch('noop', { batchSize: 1 })
        if (job === undefined) return false
        await boss.complete('noop', job.id)
        return true
      }),
    close: async () => {
      await boss.stop({ graceful: false })
      await database.drop()
    },
  }
}

const policy = { baseMs: 1_000, maxMs: 1_000, maxAttempts: 10 }
const isDone: IntentEvent = { type: 'succeeded', note: '' }

/** Each its own operation on a node of its own, as the others' jobs have nothing to do with each other. */
async function muster(life: 'intent' | 'whole life'): Promise<Contender> {
  const database = await createTestDatabase({ serverUrl: postgres.url() })
  const connection = connectDatabase<Database>({
    to: { url: database.url },
    applicationName: 'bench',
    log: silentLog,
    limits: { connections: concurrency },
  })
  await migrate({ pool: connection.pool, directory: migrations, log: silentLog, afterwards: async () => undefined })
  await administer(database.url, (client) => client.query(nodesOf(jobs)))
  const intents = new IntentStore(connection.db)
  const submissions = new SubmissionStore(connection.db)
  let filled = 0
  const move = async (record: ClaimedIntent, event: IntentEvent, now: number): Promise<ClaimedIntent> => {
    const to = stepIntent(record.intent, event, { now, retry: policy, chance: 0 })
    if (to === null) throw new Error(`the event ${event.type} does not apply here`)
    const moved = await intents.apply([{ from: record, to, event: event.type }])
    if (moved.length !== 1) throw new Error('the intent was moved concurrently')
    return { ...record, intent: to, rowVersion: record.rowVersion + 1 }
  }
  return {
    name: `muster (${life})`,
    fill: async () => {
      filled += 1
      for (let at = 0; at < jobs; at += 50)
        await submissions.submit(
          Array.from({ length: Math.min(50, jobs - at) }, (_, more) => submissionOf(filled, at + more)),
          null,
        )
    },
    drain: () =>
      inLanes(async () => {
        const { rows, now } = await intents.claim({ holder: 'bench', leaseMs: 60_000, limit: 1 })
        const [claimed] = rows
        if (claimed === undefined) return false
        if (life === 'whole life') {
          await move(claimed, { type: 'accepted' }, now)
          const found = await intents.findByOps([{ nodeId: claimed.intent.nodeId, opId: claimed.intent.opId }])
          const [record] = found.rows
          if (record === undefined) throw new Error('an intent is gone')
          await move({ ...claimed, ...record }, isDone, found.now)
        } else await move(claimed, isDone, now)
        return true
      }),
    close: async () => {
      await connection.close()
      await database.drop()
    },
  }
}

function submissionOf(round: number, index: number): Submission {
  const nodeId = NodeId.parse(`n-${index}`)
  return {
    id: OperationId.parse(`op-${round}-${index}`),
    kind: 'backend.install',
    backend: BackendName.parse(`b-${index}`),
    requestedBy: 'bench',
    options: {},
    nodes: [{ nodeId, nodeName: nodeId, plan: nothingToFetch, isCurrent: false }],
  }
}

/** Approved nodes that report. */
function nodesOf(count: number): string {
  return `
    insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation, approved_at, approved_by)
    select 'n-' || i, 'U' || translate(lpad(i::text, 55, '0'), '0189', 'ABCD'), 'n-' || i, 'backend', '0', '{async}', 'linux', 'amd64', 'default', '', '{}', 'i', now(), 'bench'
    from generate_series(0, ${count - 1}) i;
    insert into node_pulses (node_id, liveness, last_seen_at, resources) select id, 'present', now(), '{}' from nodes;
    analyze`
}

/** Until nothing is left, so many at once. */
async function inLanes(one: () => Promise<boolean>): Promise<void> {
  const lane = async (): Promise<void> => {
    while (await one());
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
}

const contenders = [await muster('intent'), await graphile(), await pgBoss(), await muster('whole life')]
const rates = new Map(contenders.map(({ name }) => [name, [] as number[]]))
for (let round = 0; round <= rounds && (round < 2 || performance.now() < lastRoundAfterMs); round += 1) {
  for (const { name, fill, drain } of contenders) {
    await fill()
    const began = performance.now()
    await drain()
    const rate = jobs / ((performance.now() - began) / 1_000)
    console.log(`round ${round} of ${rounds}: ${name} ${Math.round(rate)}/s`)
    // The first round warms up.
    if (round > 0) rates.get(name)?.push(rate)
  }
}
for (const { close } of contenders) await close()

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
console.table([...rates].map(([name, all]) => ({ name, 'median/s': Math.round(median(all)), 'all/s': all.map(Math.round).join(' ') })))
