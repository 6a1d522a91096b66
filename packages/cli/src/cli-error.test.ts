import { readFileSync } from 'node:fs'
import { FleetError } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { CliError, reportError } from './cli-error.ts'
import { createTerminal } from './output/terminal.ts'

function printed(error: unknown): string {
  let text = ''
  const stderr = { write: (more: string) => (text += more) }
  reportError(error, createTerminal({ stdout: stderr, stderr, env: {} }))
  return text
}

function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

describe('reportError', () => {
  it('prints a failure in a sentence, with its remedy', () =>
    expect(printed(new CliError('no such node', { code: 'not_found', hint: 'list them' }))).toBe(
      'error: no such node (not_found)\nlist them\n',
    ))

  it.each<[string, unknown, RegExp]>([
    ['a failure', new FleetError({ code: 'conflict', retry: 'never', message: 'in use' }), /^error: in use\n$/],
    ['a file that cannot be read', thrownBy(() => readFileSync('/nowhere/file')), /^error: ENOENT: .*'\/nowhere\/file'\n$/],
    [
      'a missing permission',
      Object.assign(new Error("EACCES: permission denied, mkdir '/etc/x'"), { errno: -13, code: 'EACCES', syscall: 'mkdir' }),
      /^error: EACCES: permission denied, mkdir '\/etc\/x'\n$/,
    ],
  ])('does not call %s a bug', (_, error, want) => expect(printed(error)).toMatch(want))

  it('calls anything else a bug, with its stack', () =>
    expect(printed(new TypeError('x is not a function'))).toMatch(
      /^error: this is a bug in muster: TypeError: x is not a function\n\s+at /,
    ))
})
