// Code that breaks one rule each, at the path where the rule applies, and code beside it that breaks none.

export interface Planted {
  readonly path: string
  readonly code: string
  /** As oxlint names it, and a part of what it says. */
  readonly rule: string
  readonly says: string
}

const imports = (path: string, specifier: string, says: string): Planted => ({
  path,
  code: `import * as it from '${specifier}'\nexport const use = it\n`,
  rule: 'muster(import-direction)',
  says,
})

const importViolations: readonly Planted[] = [
  imports('packages/protocol/src/a.ts', 'node:fs', 'zod and nothing else'),
  imports('packages/protocol/src/b.ts', 'pino', 'zod and nothing else'),
  imports('packages/host/src/a.ts', '@muster/bus', 'host is below everything'),
  imports('packages/bus/src/a.ts', '@muster/controller', 'the bus carries messages'),
  imports('packages/bus/src/local/b.ts', '@nats-io/transport-node', 'only bus/src/nats speaks NATS'),
  imports('packages/bus/src/c.ts', '@nats-io/nkeys', 'keys are made and checked in host'),
  imports('packages/source/src/a.ts', '@muster/bus', 'source knows where backends come from'),
  imports('packages/source/src/b.ts', 'pg', 'source knows where backends come from'),
  imports('packages/source/src/oci/network.ts', 'node:https', 'outbound is the only way out'),
  imports('packages/worker/src/a.ts', '@muster/controller', 'must not be able to reach the database'),
  imports('packages/worker/src/b.ts', 'pg', 'must not be able to reach the database'),
  imports('packages/worker/src/c.ts', 'kysely', 'must not be able to reach the database'),
  imports('packages/worker/src/d.ts', '@muster/cli', 'must not be able to reach the database'),
  imports('packages/worker/src/e.ts', '@muster/testkit', 'must not be able to reach the database'),
  imports('packages/worker/src/supervisor/replica.pure.ts', 'node:fs/promises', 'decides and does nothing else'),
  imports('packages/worker/src/storage/f.ts', '../installer/clean.ts', 'storage is at the bottom'),
  imports('packages/worker/src/resources/f.ts', '../storage/clean.ts', 'resources reads the machine'),
  imports('packages/worker/src/controllers/f.ts', '../membership/clean.ts', 'client of the controllers'),
  imports('packages/worker/src/work/f.ts', '../operations/clean.ts', 'operations and supervisor share'),
  imports('packages/worker/src/drivers/f.ts', '../supervisor/clean.ts', 'a driver knows a protocol'),
  imports('packages/worker/src/operations/f.ts', '../installer/clean.ts', 'operations decide what runs'),
  imports('packages/worker/src/installer/f.ts', '../supervisor/clean.ts', 'the installer implements'),
  imports('packages/worker/src/models/f.ts', '../supervisor/clean.ts', 'models keeps the files'),
  imports('packages/worker/src/supervisor/f.ts', '../operations/clean.ts', 'the supervisor runs processes'),
  imports('packages/worker/src/gateway/f.ts', '../operations/clean.ts', 'the gateway serves'),
  imports('packages/worker/src/membership/f.ts', '../commands/clean.ts', 'membership joins the cluster'),
  imports('packages/worker/src/commands/f.ts', '../gateway/clean.ts', 'a command handler parses'),
  imports('packages/worker/src/gateway/g.ts', '../assemble.ts', 'put the parts of a worker together'),
  imports('packages/controller/src/routing/choose.ts', '@muster/host', 'decides and does nothing else'),
  imports('packages/controller/src/a.ts', '@muster/worker', 'over the bus'),
  imports('packages/controller/src/b.ts', '@muster/cli', 'over the bus'),
  imports('packages/controller/src/nodes/c.ts', 'pg', 'every query stands in controller/src/store'),
  imports('packages/controller/src/http/d.ts', 'kysely/helpers/postgres', 'every query stands in controller/src/store'),
  imports('packages/controller/src/http/e.ts', '@nats-io/transport-node', 'only bus/src/nats speaks NATS'),
  imports('packages/controller/src/http/f.ts', 'node:child_process', 'programs are started in few places'),
  imports('packages/controller/src/store/g.ts', '../nodes/clean.ts', 'the store is at the bottom'),
  imports('packages/controller/src/postgres/h.ts', '@muster/bus', 'the store is at the bottom'),
  imports('packages/controller/src/work/w.ts', '../intents/clean.ts', 'work carries out every kind of work'),
  imports('packages/controller/src/events/i.ts', '../http/clean.ts', 'http is at the top'),
  imports('packages/controller/src/operations/j.ts', 'hono', 'http is at the top'),
  imports('packages/controller/src/http/k.ts', '../main.ts', 'import the file that has what you need'),
  imports('packages/controller/src/http/l.ts', '../../../host/src/clock.ts', 'packages import each other by name'),
  imports('packages/controller/src/http/m.ts', '@muster/host/src/clock.ts', 'packages import each other by name'),
  imports('packages/cli/src/commands/a.ts', '@muster/controller', 'needs nothing but the HTTP API'),
  imports('packages/cli/src/pack/a.ts', '@muster/source', 'has to start fast'),
  imports('packages/cli/src/serve/a.ts', '@muster/worker', 'has to start fast'),
  imports('packages/web/src/a.ts', '@muster/host', 'runs in a browser'),
  imports('packages/web/src/b.ts', 'node:fs/promises', 'runs in a browser'),
  imports('packages/host/src/b.ts', '@muster/testkit', 'host is below everything'),
  imports('scripts/a.ts', '@muster/testkit', 'knows nothing of tests'),
  imports('packages/host/src/c.ts', 'node:process', 'use the global'),
  {
    path: 'packages/cli/src/commands/b.ts',
    code: `export const later = (): Promise<unknown> => import('@muster/worker')\n`,
    rule: 'muster(import-direction)',
    says: 'needs nothing but the HTTP API',
  },
  {
    path: 'packages/controller/src/nodes/d.ts',
    code: `export type Pool = import('pg').Pool\n`,
    rule: 'muster(import-direction)',
    says: 'every query stands in controller/src/store',
  },
  {
    path: 'packages/controller/src/nodes/e.ts',
    code: `export { sql } from 'kysely'\n`,
    rule: 'muster(import-direction)',
    says: 'every query stands in controller/src/store',
  },
  {
    path: 'packages/host/src/ring-a.ts',
    code: `import { b } from './ring-b.ts'\nexport const a = (): number => b()\n`,
    rule: 'import(no-cycle)',
    says: 'cycle',
  },
  {
    path: 'packages/host/src/ring-b.ts',
    code: `import { a } from './ring-a.ts'\nexport const b = (): number => a()\n`,
    rule: 'import(no-cycle)',
    says: 'cycle',
  },
]

const pure = (name: string, expression: string, says: string): Planted => ({
  path: `packages/controller/src/${name}/decide.ts`,
  code: `export const decide = (): unknown => ${expression}\n`,
  rule: 'eslint(no-restricted-globals)',
  says,
})

const pureViolations: readonly Planted[] = [
  pure('p1', 'Date.now()', 'it gets the time as a value'),
  pure('p2', 'new Date()', 'it gets the time as a value'),
  pure('p3', 'performance.now()', 'it gets the time as a value'),
  pure('p4', 'process.pid', 'it knows no process'),
  pure('p5', "console.log('x')", 'its caller logs'),
  pure('p6', 'setTimeout(() => undefined, 1)', 'it never waits'),
  pure('p7', "fetch('x')", 'its caller asks'),
  pure('p8', 'crypto.randomUUID()', 'it gets random values as values'),
  { ...pure('p9', 'Math.random()', 'it gets random values as values'), rule: 'eslint(no-restricted-properties)' },
  { ...pure('p10', 'globalThis.Date', 'it has no globals'), rule: 'eslint(no-restricted-properties)' },
  {
    path: 'packages/protocol/src/states/a.ts',
    code: `export const next = async (): Promise<number> => 1\n`,
    rule: 'oxc(no-async-await)',
    says: 'async is not allowed',
  },
]

const lines = (count: number): string => Array.from({ length: count }, (_, index) => `  '${index}',`).join('\n')

const plain = (name: string, code: string, [rule, says]: readonly [string, string]): Planted => ({
  path: `packages/host/src/${name}.ts`,
  code: `${code}\n`,
  rule,
  says,
})

const codeViolations: readonly Planted[] = [
  plain('long', `export const long = [\n${lines(500)}\n]`, ['eslint(max-lines)', 'Maximum allowed is 500']),
  plain('tall', `export const tall = (): string[] => {\n  return [\n${lines(60)}\n  ]\n}`, ['eslint(max-lines-per-function)', '60']),
  plain('wide', `export function five(a: 1, b: 1, c: 1, d: 1, e: 1): number {\n  return a + b + c + d + e\n}`, [
    'eslint(max-params)',
    'Maximum allowed is 4',
  ]),
  plain('default', 'export default 1', ['import(no-default-export)', 'named exports']),
  plain('any', 'export const x = (y: any): unknown => y', ['typescript(no-explicit-any)', 'any']),
  plain('type-import', `import { EventEmitter } from 'node:events'\nexport type E = EventEmitter`, [
    'typescript(consistent-type-imports)',
    'import type',
  ]),
  plain('floating', 'export const x = (y: () => Promise<void>): void => {\n  y()\n}', [
    'typescript(no-floating-promises)',
    'must be awaited',
  ]),
  plain('misused', 'export const x = (y: Promise<boolean>): number => (y ? 1 : 2)', ['typescript(no-misused-promises)', 'Promise']),
  plain('switch', `export const x = (y: 'a' | 'b'): number => {\n  switch (y) {\n    case 'a':\n      return 1\n  }\n  return 2\n}`, [
    'typescript(switch-exhaustiveness-check)',
    '"b"',
  ]),
  plain('non-null', 'export const x = (y: string | null): string => y!', ['typescript(no-non-null-assertion)', 'non-null']),
  plain('throw', `export const x = (): never => {\n  throw 'text'\n}`, ['typescript(only-throw-error)', 'Expected an error object']),
  plain('equal', 'export const x = (y: unknown): boolean => y == 1', ['eslint(eqeqeq)', '===']),
  plain('empty', 'export const x = (y: () => void): void => {\n  try {\n    y()\n  } catch {}\n}', ['eslint(no-empty)', 'empty']),
  plain('const', 'export const x = (): number => {\n  let y = 1\n  return y\n}', ['eslint(prefer-const)', 'never reassigned']),
  plain('protocol', `import { join } from 'path'\nexport const x = join`, ['unicorn(prefer-node-protocol)', 'node:']),
  plain('disable', `/* oxlint-disable */\nexport const x = (y: unknown): boolean => y == 1`, [
    'unicorn(no-abusive-eslint-disable)',
    'specify',
  ]),
  plain('env', `export const x = process.env['X']`, ['node(no-process-env)', 'process.env']),
  plain('console', `console.log('x')`, ['eslint(no-console)', 'console']),
  plain('unused', 'const x = 1\nexport const y = 2', ['eslint(no-unused-vars)', "'x'"]),
  {
    path: 'packages/controller/src/n.ts',
    code: `export const x = fetch('y')\n`,
    rule: 'eslint(no-restricted-globals)',
    says: 'ten times the CPU',
  },
  {
    path: 'packages/controller/src/o.ts',
    code: `export const x = globalThis.fetch\n`,
    rule: 'eslint(no-restricted-properties)',
    says: 'See the rule about the global',
  },
]

const web = (name: string, code: string, [rule, says]: readonly [string, string]): Planted => ({
  path: `packages/web/src/${name}.tsx`,
  code: `${code}\n`,
  rule,
  says,
})

const webViolations: readonly Planted[] = [
  web('effect-import', `import './clean.ts'\nexport const x = 1`, ['import(no-unassigned-import)', 'assigned']),
  web('hooks', `import { useState } from 'react'\nexport function X({ y }: { y: boolean }) {\n  if (y) useState(1)\n  return null\n}`, [
    'react(hooks)',
    'conditionally',
  ]),
  web(
    'deps',
    `import { useEffect } from 'react'\nexport function X({ y }: { y: () => void }) {\n  useEffect(() => y(), [])\n  return null\n}`,
    ['react(exhaustive-effect-dependencies)', 'missing'],
  ),
  web('danger', `export const X = ({ y }: { y: string }) => <p dangerouslySetInnerHTML={{ __html: y }} />`, [
    'react(no-danger)',
    'dangerouslySetInnerHTML',
  ]),
]

const test = (name: string, code: string, [rule, says]: readonly [string, string]): Planted => ({
  path: `packages/host/src/${name}.test.ts`,
  code: `import { expect, it } from 'vitest'\n${code}\n`,
  rule,
  says,
})

const testViolations: readonly Planted[] = [
  test('only', `it.only('x', () => {\n  expect(1).toBe(1)\n})`, ['vitest(no-focused-tests)', 'focused']),
  test('skip', `it.skip('x', () => {\n  expect(1).toBe(1)\n})`, ['vitest(no-disabled-tests)', 'Disabled']),
  test('nothing', `it('x', () => {\n  Math.abs(1)\n})\nexport const y = expect`, ['vitest(expect-expect)', 'no assertions']),
  test('half', `it('x', () => {\n  expect(1)\n})`, ['vitest(valid-expect)', 'matcher']),
]

export const violations: readonly Planted[] = [
  ...importViolations,
  ...pureViolations,
  ...codeViolations,
  ...webViolations,
  ...testViolations,
]

const using = (specifier: string): string => `import * as it from '${specifier}'\nexport const use = it\n`

/** Path and code of files about which nothing is to be said. */
export const clean: readonly (readonly [path: string, code: string])[] = [
  ['packages/protocol/src/clean.ts', using('zod')],
  [
    'packages/protocol/src/states/clean.ts',
    `import { clean } from '../../packages/testkit/reached.ts'\nexport const next = (now: number): number => now + clean\n`,
  ],
  ['packages/protocol/src/reached.ts', 'export const clean = 1\n'],
  ['packages/host/src/process-identity.ts', using('node:child_process')],
  ['packages/host/src/node-key.ts', using('@nats-io/nkeys')],
  ['packages/bus/src/nats/clean.ts', using('@nats-io/transport-node')],
  ['packages/worker/src/supervisor/process.ts', using('node:child_process')],
  ['packages/controller/src/store/clean.ts', using('kysely')],
  ['packages/controller/src/postgres/clean.ts', using('node:child_process')],
  ['packages/controller/src/nodes/clean.ts', using('../store/clean.ts')],
  ['packages/controller/src/work/clean.ts', using('../store/clean.ts')],
  [
    'packages/controller/src/http/clean.ts',
    `import * as hono from 'hono'\nimport { use } from '../../packages/testkit/nodes/clean.ts'\nexport const all = [hono, use]\n`,
  ],
  ['packages/controller/src/main.ts', using('./http/clean.ts')],
  [
    'packages/controller/src/nodes/clean.test.ts',
    `import * as kit from '@muster/testkit'\nimport { expect, it } from 'vitest'\nit('x', () => {\n  expect(kit).toBe(fetch)\n})\n`,
  ],
  [
    'packages/cli/src/serve/clean.ts',
    `import type * as bus from '@muster/bus'\nexport type Bus = typeof bus\nexport const later = (): Promise<unknown> => import('@muster/controller')\n`,
  ],
  ['packages/source/src/clean.ts', using('@muster/host')],
  ['packages/worker/src/clean.ts', using('@muster/source')],
  ['packages/controller/src/builtin/clean.ts', using('@muster/source')],
  ['packages/bus/src/clean.test.ts', using('../../testkit/src/wait-for.ts')],
  ['packages/cli/src/main.ts', `console.log(process.env['X'])\n`],
  ['packages/web/src/clean.ts', using('@muster/protocol')],
  ['packages/testkit/src/clean.ts', using('../../controller/src/store/clean.ts')],
  ['scripts/clean.ts', `console.log(process.env['X'])\n`],
]
