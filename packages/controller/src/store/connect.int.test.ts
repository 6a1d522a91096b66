import { once } from 'node:events'
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net'
import { silentLog } from '@muster/host'
import { boundMs, startTestPostgres, waitFor, type TestPostgres } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { connectDatabase, type ConnectedDatabase, type Limits } from './connect.ts'
import { isUnavailable } from './errors.ts'

interface Tables {
  note: { id: number; text: string }
}

// A server of its own: killing one of its processes drops every connection.
let postgres: TestPostgres
let url: string
let opened: ConnectedDatabase<Tables>[]

beforeAll(async () => {
  postgres = await startTestPostgres()
  url = postgres.url()
})
afterAll(() => postgres.stop())
beforeEach(() => {
  opened = []
})
afterEach(() => Promise.all(opened.map((each) => each.close())))

function connect(limits: Partial<Limits> = {}): ConnectedDatabase<Tables> {
  const connected = connectDatabase<Tables>({ to: { url }, applicationName: 'a test', log: silentLog, limits })
  opened.push(connected)
  return connected
}

async function withNotes(limits?: Partial<Limits>): Promise<ConnectedDatabase<Tables>> {
  const connected = connect(limits)
  await sql`drop table if exists note`.execute(connected.db)
  await sql`create table note (id int primary key, text text not null)`.execute(connected.db)
  await connected.db
    .insertInto('note')
    .values([
      { id: 1, text: 'a' },
      { id: 2, text: 'b' },
    ])
    .execute()
  return connected
}

const failing = (work: Promise<unknown>): Promise<unknown> => work.then(() => new Error('it did not fail')).catch((error: unknown) => error)

async function ownPid({ db }: ConnectedDatabase<Tables>): Promise<number> {
  return (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]?.pid ?? 0
}

describe('values', () => {
  it('arrive as numbers and as times in UTC', async () => {
    const { rows } = await sql`
      select 7::bigint as big, count(*) as counted, array[1, null, 3]::bigint[] as bigs, '{}'::bigint[] as none,
        '2026-03-01 12:00:00.123456+02'::timestamptz as at, array['2026-03-01 12:00+02'::timestamptz, null] as times,
        '2026-03-01'::date as day, '{"a": [1]}'::jsonb as json, array['x,y', 'z'] as texts`.execute(connect().db)
    expect(rows).toEqual([
      {
        ...{ big: 7, counted: 1, bigs: [1, null, 3], none: [] },
        ...{
          at: '2026-03-01T10:00:00.123Z',
          times: ['2026-03-01T10:00:00.000Z', null],
          day: '2026-03-01',
          json: { a: [1] },
          texts: ['x,y', 'z'],
        },
      },
    ])
  })

  it('that JavaScript would change are refused', async () => {
    expect(await failing(sql`select 9007199254740993 as big`.execute(connect().db))).toBeInstanceOf(RangeError)
  })
})

describe('sessions', () => {
  it('have limits on everything that can wait', async () => {
    const names = [
      'statement_timeout',
      'lock_timeout',
      'idle_in_transaction_session_timeout',
      'transaction_timeout',
      'TimeZone',
      'application_name',
    ]
    const { rows } = await sql<{ value: string }>`select current_setting(name) as value from unnest(${names}::text[]) name`.execute(
      connect().db,
    )
    expect(rows.map(({ value }) => value)).toEqual(['5s', '3s', '8s', '20s', 'UTC', 'a test'])
  })

  it.each<[string, Partial<Limits>, string]>([
    ['a statement', { statementMs: 100 }, 'select pg_sleep(10)'],
    ['waiting for a lock', { lockMs: 100 }, 'select * from note for update'],
  ])('end %s that takes too long as unavailable', async (_, limits, text) => {
    await withNotes()
    const [holder, waiter] = [connect(), connect(limits)]
    await holder.db.transaction().execute(async (tx) => {
      await sql`select * from note for update`.execute(tx)
      expect(await failing(sql.raw(text).execute(waiter.db))).toSatisfy(isUnavailable)
    })
    expect(await ownPid(waiter)).toBeGreaterThan(0)
  })

  it('end a transaction that does nothing, without ending the process', async () => {
    const connected = await withNotes({ idleInTransactionMs: 100 })
    const outcome = failing(
      connected.db.transaction().execute(async (tx) => {
        const pid = await ownPid({ ...connected, db: tx })
        const watcher = connect()
        await waitFor(async () => (await sql`select from pg_stat_activity where pid = ${pid}`.execute(watcher.db)).rows.length === 0, {
          what: 'the session to end',
        })
        await tx.deleteFrom('note').execute()
      }),
    )
    expect(await outcome).toSatisfy(isUnavailable)
    expect(await connected.db.selectFrom('note').selectAll().execute()).toHaveLength(2)
  })
})

describe('a statement that comes again', () => {
  it('J4 keeps working when another version adds a column to its result', async () => {
    // One connection, on which it was prepared.
    const { db } = connect({ connections: 1 })
    await sql`create table things (id int)`.execute(db)
    await sql`insert into things values (1)`.execute(db)
    const read = async () => (await sql`select * from things`.execute(db)).rows
    for (let times = 0; times < 5; times += 1) expect(await read()).toEqual([{ id: 1 }])
    await sql`alter table things add column name text`.execute(db)
    expect(await read()).toEqual([{ id: 1, name: null }])
    expect(await read()).toEqual([{ id: 1, name: null }])
    await sql`drop table things`.execute(db)
  })
})

describe('failures', () => {
  it('D1 after one server process was killed every connection is lost, and within seconds all work again', async () => {
    const connected = await withNotes()
    const { db } = connected
    for (let round = 0; round < 5; round += 1) {
      const begun = Promise.withResolvers<number>()
      const inTransaction = failing(
        db.transaction().execute(async (tx) => {
          await tx.updateTable('note').set({ text: 'never' }).execute()
          begun.resolve(await ownPid({ ...connected, db: tx }))
          await sql`select pg_sleep(30)`.execute(tx)
        }),
      )
      const victim = await begun.promise
      // One more that is idle inside a transaction, and one that is idle in the pool.
      const idle = await connected.pool.connect()
      await idle.query('begin')
      await ownPid(connected)

      process.kill(victim, 'SIGKILL')
      expect(await inTransaction).toSatisfy(isUnavailable)
      await waitFor(
        () =>
          db
            .updateTable('note')
            .set({ text: `round ${round}` })
            .execute(),
        { what: 'the database to work again', timeoutMs: boundMs(5_000) },
      )
      expect(await failing(idle.query('select 1'))).toSatisfy(isUnavailable)
      idle.release(true)
      expect(await db.selectFrom('note').select('text').execute()).toEqual([{ text: `round ${round}` }, { text: `round ${round}` }])
    }
  })

  it('D2 after the whole server was killed and came back, nothing acknowledged is lost', async () => {
    const { db } = await withNotes()
    await db.insertInto('note').values({ id: 3, text: 'kept' }).execute()
    postgres.kill('SIGKILL')
    expect(
      await failing(waitFor(async () => !isUnavailable(await failing(ownPidOnce(db))), { what: 'never', timeoutMs: 300 })),
    ).toBeInstanceOf(Error)
    await postgres.restart()
    const rows = await waitFor(() => db.selectFrom('note').selectAll().where('id', '=', 3).execute(), { what: 'the database to be back' })
    expect(rows).toEqual([{ id: 3, text: 'kept' }])
  })

  it('D5 a server process that stops answering is given up by the client, and its connection is not used again', async () => {
    const connected = connect({ connections: 1, answerMs: 300 })
    const stopped: number[] = []
    const stop = (pid: number): void => {
      stopped.push(pid)
      process.kill(pid, 'SIGSTOP')
    }
    const stuck = await ownPid(connected)
    try {
      stop(stuck)
      expect(await failing(ownPid(connected))).toSatisfy(isUnavailable)
      expect(await ownPid(connected)).not.toBe(stuck)
      const inTransaction = connected.db.transaction().execute(async (tx) => {
        stop(await ownPid({ ...connected, db: tx }))
        await ownPid({ ...connected, db: tx })
      })
      expect(await failing(inTransaction)).toSatisfy(isUnavailable)
      expect(await ownPid(connected)).toBeGreaterThan(0)
    } finally {
      for (const pid of stopped) process.kill(pid, 'SIGCONT')
    }
  })

  it('D6 when all connections are in use, the next one fails in time with that reason', async () => {
    const connected = await withNotes({ connections: 2, acquireMs: boundMs(150) })
    const release = Promise.withResolvers<void>()
    const holders = [1, 2].map((id) =>
      connected.db.transaction().execute(async (tx) => {
        await tx.updateTable('note').set({ text: 'held' }).where('id', '=', id).execute()
        await release.promise
      }),
    )
    await waitFor(() => connected.pool.totalCount === 2 && connected.pool.idleCount === 0, { what: 'all connections to be in use' })
    expect(await failing(connected.db.selectFrom('note').selectAll().execute())).toSatisfy(isUnavailable)
    release.resolve()
    await Promise.all(holders)
    expect(await connected.db.selectFrom('note').selectAll().execute()).toHaveLength(2)
  })

  it('is unavailable, and nothing worse, while there is no server', async () => {
    const nowhere = connectDatabase<Tables>({ to: { url: 'postgresql://u:p@127.0.0.1:1/x' }, applicationName: 'a test', log: silentLog })
    opened.push(nowhere)
    expect(await failing(nowhere.db.selectFrom('note').selectAll().execute())).toSatisfy(isUnavailable)
    const noSocket = connectDatabase<Tables>({
      to: { url: 'postgresql://u:p@localhost/x?host=/nonexistent' },
      applicationName: 'a test',
      log: silentLog,
    })
    opened.push(noSocket)
    expect(await failing(noSocket.db.selectFrom('note').selectAll().execute())).toSatisfy(isUnavailable)
  })
})

describe('close', () => {
  it('waits until every connection is gone', async () => {
    const connected = await withNotes()
    await Promise.all([ownPid(connected), ownPid(connected), connected.pool.query('select 1')])
    const watcher = connect()
    await connected.close()
    opened.splice(opened.indexOf(connected), 1)
    const others = sql`select from pg_stat_activity where application_name = 'a test' and pid <> pg_backend_pid()`
    await waitFor(async () => (await others.execute(watcher.db)).rows.length === 0, { what: 'the server to see it too' })
  })

  it('does not wait forever for a connection that is never released', async () => {
    const connected = connect({ answerMs: 100 })
    const kept = await connected.pool.connect()
    await connected.close()
    opened.splice(opened.indexOf(connected), 1)
    expect(await failing(kept.query('select 1'))).toSatisfy(isUnavailable)
  })
})

describe('a network that swallows everything', () => {
  it('does not hold up queries, the listener or closing', async () => {
    await using tcp = await startTestPostgres({ listen: 'tcp' })
    const address = new URL(tcp.url())
    const serverPort = Number(address.port)
    const sockets: Socket[] = []
    const proxy = createServer((near) => {
      const far = createConnection(serverPort, address.hostname)
      sockets.push(near, far)
      for (const each of [near, far]) each.on('error', () => {})
      near.pipe(far).pipe(near)
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    address.port = String((proxy.address() as AddressInfo).port)
    const connected = connectDatabase({ to: { url: address.href }, applicationName: 'a test', log: silentLog, limits: { answerMs: 300 } })
    let wakes = 0
    connected.listen({ channel: 'c', onNotify: () => void (wakes += 1) })
    await connected.pool.query('select 1')
    await waitFor(() => wakes === 1, { what: 'the listener' })

    for (const each of sockets) each.unpipe().pause()
    const begin = performance.now()
    expect(await failing(sql`select 1`.execute(connected.db))).toSatisfy(isUnavailable)
    await connected.close()
    expect(performance.now() - begin).toBeLessThan(boundMs(4_000))
    for (const each of sockets) each.destroy()
    proxy.close()
  })
})

describe('listen', () => {
  it('D11 receives notifications, and after a lost connection wakes its owner and receives again', async () => {
    const { db, listen } = connect()
    const heard: (string | null)[] = []
    const listener = listen({ channel: 'Some "channel"', onNotify: (payload) => heard.push(payload) })
    const notify = (payload: string) => sql`select pg_notify('Some "channel"', ${payload})`.execute(db)
    const listening = sql<{ pid: number }>`select pid from pg_stat_activity where datname = current_database() and query like 'listen %'`

    await waitFor(() => heard.length === 1, { what: 'the first connection' })
    await notify('one')
    await waitFor(() => heard.at(-1) === 'one', { what: 'the first notification' })

    const victim = (await listening.execute(db)).rows[0]?.pid
    await sql`select pg_terminate_backend(${victim})`.execute(db)
    await waitFor(() => heard.length === 3, { what: 'the connection to be made again' })
    await notify('two')
    await waitFor(() => heard.at(-1) === 'two', { what: 'a notification after the loss' })
    expect(heard).toEqual([null, 'one', null, 'two'])

    await listener.stop()
    await waitFor(async () => (await listening.execute(db)).rows.length === 0, { what: 'the listener to be gone' })
  })

  it('D11 keeps trying while the server is away', async () => {
    const { listen } = connect()
    let wakes = 0
    listen({ channel: 'c', onNotify: () => void (wakes += 1) })
    await waitFor(() => wakes === 1, { what: 'the first connection' })
    postgres.kill('SIGKILL')
    await postgres.restart()
    await waitFor(() => wakes === 2, { what: 'the connection to be made again' })
  })
})

async function ownPidOnce(db: ConnectedDatabase<Tables>['db']): Promise<unknown> {
  return sql`select 1`.execute(db)
}
