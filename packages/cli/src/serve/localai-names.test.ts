import { describeLocalAiNames, type LocalAiUse, localAiNames } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { judgeLocalAiName, localAiChecks, logLocalAiNames } from './localai-names.ts'
import { loadControllerSettings, loadWorkerSettings, logSettings } from './settings.ts'

const use = (name: string, outcome: LocalAiUse['outcome'], ...flags: string[]): LocalAiUse => ({ name, outcome, flags, message: 'so' })
const uses: LocalAiUse[] = [
  use('LOCALAI_A', 'used', 'host', 'port'),
  use('LOCALAI_B', 'used', 'name'),
  use('LOCALAI_C', 'no_effect'),
  use('LOCALAI_D', 'unknown'),
  use('LOCALAI_E', 'elsewhere', 'labels'),
]

function collectLog() {
  const lines: unknown[] = []
  const write =
    (level: string) =>
    (message: string, fields?: object): void =>
      void lines.push([level, message, fields])
  return { lines, log: { info: write('info'), warn: write('warn') } }
}

describe('the log of a start', () => {
  it('has one line per used name and one for the others', () => {
    const { lines, log } = collectLog()
    logLocalAiNames(uses, log)
    expect(lines).toEqual([
      ['info', 'setting read from a LocalAI variable', { name: 'LOCALAI_A', settings: ['--host', '--port'] }],
      ['info', 'setting read from a LocalAI variable', { name: 'LOCALAI_B', settings: ['--name'] }],
      ['info', expect.stringContaining('have no effect'), { other_command: ['LOCALAI_E'], no_effect: ['LOCALAI_C', 'LOCALAI_D'] }],
    ])
  })

  it('warns about what is not supported', () => {
    const { lines, log } = collectLog()
    logLocalAiNames([use('LOCALAI_P2P', 'refused')], log)
    expect(lines).toEqual([['warn', expect.any(String), { not_supported: ['LOCALAI_P2P'] }]])
  })

  it('has no line without such names', () => {
    const { lines, log } = collectLog()
    logLocalAiNames([], log)
    expect(lines).toEqual([])
  })
})

describe('the doctor', () => {
  it.each<[LocalAiUse['outcome'], string, RegExp]>([
    ['used', 'ok', /^LOCALAI_X is read as --host: so$/],
    ['elsewhere', 'ok', /other commands, as --host/],
    ['overridden', 'ok', /another source sets --host/],
    ['no_effect', 'ok', /has no effect: so/],
    ['unknown', 'ok', /has no effect: so/],
    ['refused', 'warn', /is not supported/],
  ])('judges a name that is %s', (outcome, level, found) => {
    const verdict = judgeLocalAiName(use('LOCALAI_X', outcome, 'host'))
    expect(verdict).toMatchObject({ level, found: expect.stringMatching(found) })
  })

  it('has one check per name', () => expect(localAiChecks(uses)).toHaveLength(uses.length))
})

describe('the table of names', () => {
  it('names settings that exist', async () => {
    const all = [await loadControllerSettings(), await loadWorkerSettings(), logSettings].flatMap((each) => Object.values(each))
    const flags = new Set(all.map(({ flag }) => flag))
    const named = localAiNames.flatMap(({ settings }) => settings.map(({ flag }) => flag))
    expect(named.filter((flag) => !flags.has(flag))).toEqual([])
  })

  it('is complete: a name that LocalAI does not document is reported as unknown', () =>
    expect(describeLocalAiNames({ LOCALAI_NEW: '1' }, [])).toMatchObject([{ name: 'LOCALAI_NEW', outcome: 'unknown' }]))
})
