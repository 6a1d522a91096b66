import { describe, expect, it } from 'vitest'
import { createCommandWriter } from './command-writer.ts'

const clone = (event: string) => ({ npm_package_name: 'muster', npm_lifecycle_event: event })
const write = (text: string, args: readonly string[] = [], env: Record<string, string> = {}): string =>
  createCommandWriter({ env, args }).write(text)

describe('a command in a message', () => {
  it.each<[string, Record<string, string>, string]>([
    ['where muster is installed', {}, '`muster login-link` creates another'],
    ['after npm start', clone('start'), '`npm run -s muster -- login-link` creates another'],
    ['after npm run muster', clone('muster'), '`npm run -s muster -- login-link` creates another'],
    ['in another script, which may run an installed muster', clone('test'), '`muster login-link` creates another'],
    ['in a script of another package', { ...clone('start'), npm_package_name: 'site' }, '`muster login-link` creates another'],
  ])('is one that works here: %s', (_, env, want) => expect(write('`muster login-link` creates another', [], env)).toBe(want))

  it.each<[string, string[], string, string]>([
    ['the data directory', ['up', '--data-dir', '/d'], '`muster ops ls`', '`muster ops ls --data-dir /d`'],
    ['in its other form', ['up', '--data-dir=/d'], '`muster ops ls`', '`muster ops ls --data-dir /d`'],
    ['with blanks', ['up', '--data-dir', '/my data'], '`muster ops ls`', "`muster ops ls --data-dir '/my data'`"],
    ['to a start', ['status', '--data-dir', '/d'], 'start one with `muster up`', 'start one with `muster up --data-dir /d`'],
    ['the controller', ['ops', 'ls', '--url', 'http://h:1'], '`muster ops watch op-1`', '`muster ops watch op-1 --url http://h:1`'],
    ['no controller to a start', ['ops', 'ls', '--url', 'http://h:1'], '`muster up`', '`muster up`'],
    ['nothing to a command without them', ['up', '--data-dir', '/d'], '`muster nats-config`', '`muster nats-config`'],
    ['nothing twice', ['up', '--data-dir', '/d'], '`muster up --data-dir /e`', '`muster up --data-dir /e`'],
    ['nothing that was not given', ['up', '--port', '1'], '`muster ops ls`', '`muster ops ls`'],
    ['every command of a text', ['x', '--data-dir', '/d'], '`muster a`, "muster b"', '`muster a --data-dir /d`, "muster b --data-dir /d"'],
  ])('carries on %s', (_, args, text, want) => expect(write(text, args)).toBe(want))

  it('works here in a help text too', () => {
    const help =
      'Usage: muster keys rm [options]\n\nAs `muster keys ls` shows it, muster knows.\n\nExamples:\n  $ KEY=$(muster keys create) muster up\n'
    expect(createCommandWriter({ env: clone('muster'), args: ['help'] }).writeHelp(help)).toBe(
      'Usage: npm run -s muster -- keys rm [options]\n\nAs `npm run -s muster -- keys ls` shows it, muster knows.\n\nExamples:\n  $ KEY=$(npm run -s muster -- keys create) npm run -s muster -- up\n',
    )
    expect(createCommandWriter({ env: {}, args: [] }).writeHelp(help)).toBe(help)
  })

  it('is told from other words', () => {
    const env = clone('muster')
    for (const text of ['Muster is running', 'muster.yaml', 'muster ops', '`mustered up`']) expect(write(text, [], env)).toBe(text)
  })
})
