// How the command line answers to being called for help, and to being called wrongly.
import { describe, expect, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

// Wrong usage is found before anybody is asked: nothing listens here.
const env = { MUSTER_URL: 'http://127.0.0.1:1', MUSTER_ADMIN_KEY: 'k' }
const muster = (args: readonly string[]) => runInProcess(args, env)

describe('usage', () => {
  it.each([[[]], [['--help']], [['help']], [['nodes']], [['nodes', 'ls', '--help']], [['help', 'nodes', 'ls']]])(
    'answers %j with help on stdout and 0',
    async (args) => {
      expect(await muster(args)).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: muster') as string, stderr: '' })
    },
  )

  it.each([
    [['node'], /Did you mean nodes\?/],
    [['nodes', 'lss'], /Did you mean ls\?/],
    [['nodes', 'ls', '--statsu', 'x'], /Did you mean --status\?/],
    [['nodes', 'drain'], /missing required argument 'node'/],
    [['nodes', 'ls', 'x'], /too many arguments/],
    [['nodes', 'ls', '-o', 'yaml'], /Allowed choices are text, json/],
  ])('answers %j with 2 and what is meant', async (args, message) => {
    expect(await muster(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(message) as string })
  })

  it.each([[['--name', 'ci']], [['--scope', 'read']], [['--name', 'ci', '--scope', 'root']], [['--name', '', '--scope', 'read']]])(
    'makes no key with %j',
    async (args) => {
      expect(await muster(['keys', 'create', ...args])).toMatchObject({ code: 2, stdout: '' })
    },
  )
})
