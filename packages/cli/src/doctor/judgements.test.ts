// The verdicts of the doctor, one table per check.
import { describe, expect, it } from 'vitest'
import { CliError } from '../cli-error.ts'
import { type ControllerFacts, judgeAdminKey, judgeClockSkew, judgeController, judgeModels } from './controller-checks.ts'
import type { HttpFinding, SocketFinding } from './probes.ts'
import { type ControllerReport, judgeUnreported, parseReport } from './controller-report.ts'
import { judgeBusOfController, judgeNatsServer } from './bus-check.ts'
import {
  type DataDirFacts,
  judgeDataDir,
  judgeDiskSpace,
  judgeNodeVersion,
  judgePort,
  judgeSettings,
  listenAddressIn,
  type PortState,
} from './machine-checks.ts'
import { addressOf, judgeDatabaseOfController, judgeEmbedded, judgePostgresServer } from './database-check.ts'
import type { Level, Verdict } from './checks.ts'

const answered = (status: number, json: unknown = {}): HttpFinding => ({ answered: true, status, json, date: null })
const refused: HttpFinding = { answered: false, reason: 'nothing listens at http://h:1', refused: true }
const hung: HttpFinding = { answered: false, reason: 'no answer', refused: false }

describe('node', () => {
  it.each<[string, Level]>([
    ['24.0.0', 'ok'],
    ['26.1.0', 'ok'],
    ['22.18.0', 'fail'],
    ['rubbish', 'fail'],
  ])('%s is %s', (version, level) => expect(judgeNodeVersion(version).level).toBe(level))
})

describe('settings', () => {
  it('is fine without a problem', () => expect(judgeSettings(null).level).toBe('ok'))
  it('shows a bad setting', () => expect(judgeSettings(new CliError('--port: no'))).toMatchObject({ level: 'fail', found: '--port: no' }))
  it('does not hide a bug', () => expect(() => judgeSettings(new TypeError('x'))).toThrow('x'))
})

describe('data dir', () => {
  type There = Extract<DataDirFacts, { state: 'there' }>
  const there = (some: Partial<There> = {}): DataDirFacts => ({
    path: '/d',
    state: 'there',
    mode: 0o700,
    uid: 1000,
    ownUid: 1000,
    writable: true,
    users: [],
    ...some,
  })
  it.each<[string, DataDirFacts, Level, RegExp]>([
    ['a closed directory of our own', there(), 'ok', /^\/d$/],
    [
      'one in use',
      there({
        users: [
          { role: 'controller', pid: 7 },
          { role: 'worker', pid: 8 },
        ],
      }),
      'ok',
      /the controller \(process 7\) and the worker \(process 8\)/,
    ],
    ['one that does not exist yet', { path: '/d', state: 'missing', canBeMade: true }, 'ok', /first start creates it/],
    ['one that cannot be created', { path: '/d', state: 'missing', canBeMade: false }, 'fail', /cannot create it/],
    ['a file', { path: '/d', state: 'not_a_directory' }, 'fail', /not a directory/],
    ['one that others can enter', there({ mode: 0o755 }), 'warn', /mode 0755/],
    ['one that belongs to somebody else', there({ uid: 1 }), 'fail', /another user \(uid 1\)/],
    ['one that belongs to somebody else, seen by root', there({ uid: 1, ownUid: 0 }), 'warn', /you are root/],
    ['one on a read-only mount', there({ writable: false }), 'fail', /not writable/],
  ])('%s', (_, facts, level, found) => {
    const verdict = judgeDataDir(facts)
    expect(verdict.level).toBe(level)
    expect(verdict.found).toMatch(found)
  })
})

describe('disk', () => {
  it.each<[number, Level]>([
    [999_999_999, 'fail'],
    [1e9, 'warn'],
    [4_999_999_999, 'warn'],
    [5e9, 'ok'],
  ])('%d bytes free are %s', (free, level) => expect(judgeDiskSpace(free, '/d').level).toBe(level))
})

describe('port', () => {
  it.each<[PortState, string | null, Level]>([
    ['free', null, 'ok'],
    ['in_use', '0.1.0', 'ok'],
    ['in_use', null, 'fail'],
    ['forbidden', null, 'fail'],
    ['no_such_address', null, 'fail'],
    ['unusable', null, 'fail'],
  ])('%s, held by a Muster of version %s, is %s', (state, musterVersion, level) =>
    expect(judgePort({ host: '127.0.0.1', port: 8080, state, musterVersion }).level).toBe(level),
  )
})

describe('the address of the last start', () => {
  it.each([
    ['http://127.0.0.1:9000', { host: '127.0.0.1', port: 9000 }],
    ['http://[::1]:9000', { host: '::1', port: 9000 }],
    ['http://localhost:9000', { host: 'localhost', port: 9000 }],
    ['https://muster.example', null],
    ['http://muster.example:9000', null],
    ['http://10.0.0.5', null],
  ])('of %s is %j', (url, want) => expect(listenAddressIn(new URL(url))).toEqual(want))
})

describe('controller', () => {
  const facts = (some: Partial<ControllerFacts> = {}): ControllerFacts => ({
    url: 'http://h:1',
    isExplicit: false,
    health: answered(200),
    ready: answered(200),
    version: answered(200, { version: '1.2.3' }),
    ownVersion: '1.2.3',
    ...some,
  })
  it.each<[string, Partial<ControllerFacts>, Level, RegExp]>([
    ['answers, ready, of our version', {}, 'ok', /ready, version 1.2.3/],
    ['is of another version', { ownVersion: '1.2.4' }, 'warn', /this command is 1.2.4/],
    ['lives and is not ready', { ready: answered(503) }, 'fail', /not ready/],
    ['is another program', { health: answered(404), version: answered(404) }, 'fail', /not a Muster controller/],
    ['is another program that likes every path', { version: answered(200, 'hello') }, 'fail', /not a Muster controller/],
    ['was stopped on this machine', { health: refused, ready: refused, version: refused }, 'warn', /the address of the last one/],
    ['was named and is not there', { isExplicit: true, health: refused, ready: refused, version: refused }, 'fail', /nothing listens/],
    ['hangs', { health: hung, ready: hung, version: hung }, 'fail', /no answer/],
  ])('%s', (_, some, level, found) => {
    const verdict = judgeController(facts(some))
    expect(verdict.level).toBe(level)
    expect(verdict.found).toMatch(found)
  })
})

const status = (some: { database?: string; bus?: object } = {}): HttpFinding =>
  answered(200, {
    version: '0.1.0',
    controllers: [],
    database: { version: some.database ?? '18.4', now: '2030-01-01T00:00:00Z' },
    bus: { kind: 'nats', connected: true, ...some.bus },
    nodes: {},
  })

const unavailable = answered(503, { error: { code: 'database_unavailable', message: 'the database is away' } })

describe('the report of the controller', () => {
  it.each<[string, { status: HttpFinding; ready: HttpFinding }, Partial<ControllerReport>]>([
    ['all', { status: status(), ready: answered(200) }, { kind: 'status' }],
    ['all, also while its bus is away', { status: status({ bus: { connected: false } }), ready: answered(503) }, { kind: 'status' }],
    ['that it is ready, to a key that it does not know', { status: answered(401, {}), ready: answered(200) }, { kind: 'ready' }],
    ['that it is not ready, and why', { status: unavailable, ready: answered(503) }, { kind: 'not_ready', reason: 'the database is away' }],
    ['that it is not ready', { status: answered(401, {}), ready: answered(503) }, { kind: 'not_ready', reason: null }],
    ['nothing when it does not run', { status: refused, ready: refused }, { kind: 'silent' }],
    ['nothing when it is another program', { status: answered(404), ready: answered(404) }, { kind: 'silent' }],
  ])('%s', (_, findings, word) => expect(parseReport('http://h:1', findings)).toMatchObject(word))
})

describe('database and bus, as the controller sees them', () => {
  const told = (some: Parameters<typeof status>[0]): ControllerReport =>
    parseReport('http://h:1', { status: status(some), ready: answered(200) })
  it.each<[string, ControllerReport, Level | undefined]>([
    ['nothing without a controller', { kind: 'none' }, undefined],
    ['nothing from one that does not answer', { kind: 'silent', url: 'http://h:1' }, undefined],
    ['nothing from one that is not ready', { kind: 'not_ready', reason: null }, undefined],
    ['it works when the controller is ready', { kind: 'ready' }, 'ok'],
    ['PostgreSQL 15 is fine', told({ database: '15.18' }), 'ok'],
    ['PostgreSQL 14 is too old', told({ database: '14.2 (Debian)' }), 'fail'],
  ])('database: %s', (_, word, level) => expect(judgeDatabaseOfController(word)?.level).toBe(level))

  it.each<[string, ControllerReport, Level | undefined]>([
    ['nothing without a controller', { kind: 'none' }, undefined],
    ['nothing from one that is not ready', { kind: 'not_ready', reason: null }, undefined],
    ['it works when the controller is ready', { kind: 'ready' }, 'ok'],
    ['connected to NATS', told({}), 'ok'],
    ['open to any client', told({ bus: { open: true } }), 'warn'],
    ['in-process', told({ bus: { kind: 'local' } }), 'ok'],
    ['cut off', told({ bus: { connected: false } }), 'fail'],
  ])('bus: %s', (_, word, level) => expect(judgeBusOfController(word)?.level).toBe(level))
})

describe('figures that the controller does not report', () => {
  const seen = { level: 'ok', found: 'it answers' } as const
  const broken = { level: 'fail', found: 'it is gone', advice: 'bring it back' } as const
  const notReady: ControllerReport = { kind: 'not_ready', reason: 'the database is away' }
  const silent: ControllerReport = { kind: 'silent', url: 'http://h:1' }
  const unknown = 'unknown: the controller is not ready (the database is away)'
  it.each<[string, ControllerReport, Verdict | null, Partial<Verdict> | null]>([
    ['is unknown while the controller is not ready', notReady, null, { level: 'fail', found: unknown }],
    ['is unknown then also when something answers', notReady, seen, { level: 'fail', found: unknown }],
    ['is what is broken', notReady, broken, broken],
    ['is what is seen from here while no controller runs', silent, seen, seen],
    ['is unknown without either', silent, null, { level: 'warn', found: 'unknown: no controller answers at http://h:1' }],
    ['is what is seen from here when no controller is known', { kind: 'none' }, seen, seen],
    ['is nothing yet on a new machine', { kind: 'none' }, null, null],
  ])('%s', (_, word, local, want) => {
    const verdict = judgeUnreported(word, local, '--database-url')
    if (want === null) expect(verdict).toBeNull()
    else expect(verdict).toMatchObject(want)
  })
})

describe('embedded database', () => {
  const alive = { pid: 7, alive: true }
  const dead = { pid: 7, alive: false }
  it.each<[string, Parameters<typeof judgeEmbedded>[0], Level, RegExp]>([
    ['not created yet', { state: 'none' }, 'ok', /not created yet/],
    ['half gone', { state: 'gone', home: '/h', dataDir: '/d' }, 'fail', /the database of \/d was in \/h, which is gone/],
    ['in use', { state: 'made', home: '/h', holder: alive, server: { pid: 8, alive: true } }, 'ok', /process 7, server 8/],
    ['starting', { state: 'made', home: '/h', holder: alive, server: null }, 'ok', /process 7$/],
    ['stopped in order', { state: 'made', home: '/h', holder: null, server: null }, 'ok', /stopped/],
    ['killed together with its server', { state: 'made', home: '/h', holder: dead, server: dead }, 'ok', /stopped/],
    ['orphaned', { state: 'made', home: '/h', holder: dead, server: alive }, 'warn', /server 7 still runs/],
  ])('%s', (_, facts, level, found) => {
    const verdict = judgeEmbedded(facts)
    expect(verdict.level).toBe(level)
    expect(verdict.found).toMatch(found)
  })
})

describe('a PostgreSQL server', () => {
  const heard = (text: string): SocketFinding => ({ answered: true, data: Buffer.from(text) })
  it.each<[string, SocketFinding, Level]>([
    ['offers encryption', heard('S'), 'ok'],
    ['offers none', heard('N'), 'ok'],
    ['is a web server', heard('HTTP/1.1 400'), 'fail'],
    ['is silent', { answered: false, reason: 'no answer within 4 s' }, 'fail'],
    ['is not there', { answered: false, reason: 'ECONNREFUSED' }, 'fail'],
  ])('%s', (_, finding, level) => expect(judgePostgresServer('h:5432', finding).level).toBe(level))

  it.each([
    ['postgres://user:canary@db:5433/muster', 'db:5433'],
    ['postgresql://db/muster', 'db:5432'],
    ['postgres:///muster?host=/run/postgresql', '/run/postgresql/.s.PGSQL.5432'],
    ['postgres://user:canary@%2Frun%2Fpg:5433/muster', '/run/pg/.s.PGSQL.5433'],
    ['postgres://[::1]:5432/muster', '[::1]:5432'],
    ['mysql://db/muster', undefined],
    ['db', undefined],
  ])('J8 %s is at %s, and no password is shown', (url, shown) => expect(addressOf(url)?.shown).toBe(shown))
})

describe('a NATS server', () => {
  const info = (some: object = {}): SocketFinding => ({
    answered: true,
    data: Buffer.from(`INFO ${JSON.stringify({ version: '2.9.10', max_payload: 1_048_576, ...some })} \r\n`),
  })
  it.each<[string, SocketFinding, Level]>([
    ['of the oldest version', info(), 'ok'],
    ['of a newer one', info({ version: '2.10.0-beta' }), 'ok'],
    ['of a major version to come', info({ version: '3.0.0' }), 'ok'],
    ['too old', info({ version: '2.8.4' }), 'fail'],
    ['with too small messages', info({ max_payload: 65_536 }), 'warn'],
    ['that is none', { answered: true, data: Buffer.from('SSH-2.0\r\n') }, 'fail'],
    ['that says nothing of itself', { answered: true, data: Buffer.from('INFO {}\r\n') }, 'fail'],
    ['that is not there', { answered: false, reason: 'ECONNREFUSED' }, 'fail'],
  ])('%s', (_, finding, level) => expect(judgeNatsServer('nats://h:4222', finding).level).toBe(level))
})

describe('clock', () => {
  it.each<[number, Level]>([
    [0, 'ok'],
    [5000, 'ok'],
    [-5000, 'ok'],
    [5001, 'warn'],
    [-300_000, 'warn'],
    [300_001, 'fail'],
    [-300_001, 'fail'],
  ])('%d ms off is %s', (offMs, level) => expect(judgeClockSkew({ offMs, whose: 'the database' }).level).toBe(level))

  it('names the direction', () => {
    expect(judgeClockSkew({ offMs: 60_000, whose: 'the database' }).found).toBe('this machine is 1m ahead of the database')
    expect(judgeClockSkew({ offMs: -60_000, whose: 'the database' }).found).toBe('this machine is 1m behind the database')
  })
})

describe('admin key', () => {
  it.each<[string, boolean, number | null, Level]>([
    ['works', true, 200, 'ok'],
    ['is unknown', true, 401, 'fail'],
    ['may only read', true, 403, 'warn'],
    ['could not be tried', true, 503, 'warn'],
    ['was not tried', true, null, 'ok'],
    ['is missing', false, null, 'warn'],
  ])('%s', (_, hasKey, answer, level) =>
    expect(judgeAdminKey({ keyFrom: '/d/admin.key', hasKey, isWithheld: false, status: answer }).level).toBe(level),
  )

  it('is not for that server', () =>
    expect(judgeAdminKey({ keyFrom: '/d/admin.key', hasKey: false, isWithheld: true, status: null })).toMatchObject({
      level: 'warn',
      found: expect.stringContaining('not sent elsewhere') as string,
    }))
})

describe('models', () => {
  const model = (name: string, failure: object | null = null) => ({
    name,
    backend: 'llama',
    revision: 'r',
    config: { name, backend: 'llama' },
    state: failure === null ? 'ready' : 'failed',
    replicas_ready: 0,
    replicas_desired: 1,
    failure,
  })
  const failure = { code: 'integrity', message: 'wrong hash', at: '', next_retry_at: null, attempts: 1 }
  it.each<[HttpFinding | null, Level, RegExp]>([
    [null, 'ok', /not checked/],
    [refused, 'ok', /not checked/],
    [answered(403, { error: { code: 'forbidden', message: 'no' } }), 'ok', /not checked/],
    [answered(200, { models: [] }), 'ok', /none yet/],
    [answered(200, { models: [model('a'), model('b')] }), 'ok', /2 of 2 ready/],
    [answered(200, { models: [model('a'), model('b', failure)] }), 'warn', /1 of 2 cannot be loaded: b \(wrong hash\)/],
  ])('%j is %s', (finding, level, found) => {
    expect(judgeModels(finding)).toMatchObject({ level, found: expect.stringMatching(found) as string })
  })
})
