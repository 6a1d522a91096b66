import { Command } from 'commander'
import { bool, defineSettings, duration, int, list, map, resolveSettings, secret, string } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { collectOptions } from '../commands/command.ts'
import { flagsGiven, settingOption } from './setting-options.ts'

const settings = defineSettings({
  host: string({ flag: 'host', default: '127.0.0.1', help: 'address' }),
  port: int({ flag: 'port', default: 8080, min: 0, help: 'port' }),
  autoApprove: bool({ flag: 'auto-approve', default: false, help: 'approve' }),
  nodeTimeout: duration({ flag: 'node-timeout', default: '15s', help: 'silence' }),
  allowSource: list({ flag: 'allow-source', help: 'hosts' }),
  labels: map({ flag: 'labels', help: 'labels' }),
  token: secret({ flag: 'token', allowFlag: true, help: 'token' }),
  adminKey: secret({ flag: 'admin-key', help: 'key' }),
})

function parse(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined })
  for (const setting of Object.values(settings)) command.addOption(settingOption(setting))
  command.parse(args, { from: 'user' })
  return resolveSettings(settings, { flags: flagsGiven(settings, collectOptions(command)), env })
}

describe('settings on the command line', () => {
  it('leaves omitted options to the environment and the defaults', () => {
    expect(parse([], { MUSTER_PORT: '9' })).toMatchObject({ host: '127.0.0.1', port: 9, autoApprove: false, allowSource: [] })
  })

  it('comes before the environment', () => expect(parse(['--port', '0'], { MUSTER_PORT: '9' }).port).toBe(0))

  it.each<[string[], boolean]>([
    [['--auto-approve'], true],
    [['--auto-approve', 'true'], true],
    [['--auto-approve=false'], false],
    [[], false],
  ])('reads %j as %s', (args, want) => expect(parse(args, {}).autoApprove).toBe(want))

  it('takes lists repeated and maps in one or several', () => {
    const values = parse(['--allow-source', 'a', '--allow-source=b', '--labels', 'x=1,y=2', '--labels', 'z=3'])
    expect(values.allowSource).toEqual(['a', 'b'])
    expect(values.labels).toEqual({ x: '1', y: '2', z: '3' })
  })

  it('SEC26 takes a secret only from the documented places, and explains how to set the others', () => {
    expect(parse(['--token', 't']).token?.reveal()).toBe('t')
    expect(() => parse(['--admin-key', 'canary'])).toThrow(/MUSTER_ADMIN_KEY/)
    expect(() => parse(['--admin-key', 'canary'])).not.toThrow(/canary/)
  })

  it.each([[['--node-timeout', '-5s']], [['--node-timeout', 'soon']], [['--port', '99x']]])(
    'S2.4 refuses %j and names the flag',
    (args) => {
      expect(() => parse(args)).toThrow(args[0])
    },
  )
})
