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

  it('explains that a controller needs a database and a bus', async () => {
    const { stdout } = await muster(['controller', '--help'])
    expect(stdout).toMatch(/--database-url <secret> +PostgreSQL 15 to 18 \(needed\)/)
    expect(stdout).toMatch(/--nats-url <text> +NATS server of the cluster \(needed\)/)
    expect(stdout).not.toMatch(/embedded|inside the process/)
    expect((await muster(['up', '--help'])).stdout).toMatch(/--database-url <secret>[^-]*embedded/)
  })

  it.each(['up', 'controller'])('lists for %s the secrets that only the environment can give', async (command) => {
    const { stdout } = await muster([command, '--help'])
    expect(stdout).toMatch(/From the environment, never as a flag.*_FILE/)
    for (const name of ['MUSTER_ADMIN_KEY', 'MUSTER_JOIN_TOKEN', 'MUSTER_NATS_ACCOUNT_SEED'])
      expect(stdout).toMatch(new RegExp(`^ +${name} +\\w`, 'm'))
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(120)
  })

  it.each([
    [['nodes', 'ls'], false],
    [['status'], false],
    [['doctor'], true],
    [['worker'], true],
  ])('offers --config for %j: %s, where it has a meaning', async (command, want) => {
    expect((await muster([...command, '--help'])).stdout.includes('--config')).toBe(want)
  })

  it('takes --config everywhere, as everything does', async () => {
    for (const args of [
      ['--config', '/x', 'nodes', 'ls'],
      ['nodes', 'ls', '--config', '/x'],
    ])
      expect(await muster(args)).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing listens') as string })
  })

  it.each([
    [['node'], /Did you mean nodes\?/],
    [['nodes', 'lss'], /Did you mean ls\?/],
    [['nodes', 'ls', '--statsu', 'x'], /Did you mean --status\?/],
    [['nodes', 'drain'], /name a node, or give --selector or --all/],
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
