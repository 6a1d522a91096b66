import { Command } from 'commander'
import { bool, defineSettings, int, list, secret } from '@muster/host'
import { expect, it } from 'vitest'
import { collectOptions, serviceOptions } from '../commands/command.ts'
import { givenFlags, settingOption } from './setting-options.ts'

const settings = defineSettings({
  port: int({ flag: 'port', default: 8080, help: '' }),
  autoApprove: bool({ flag: 'auto-approve', default: false, help: '' }),
  allowSource: list({ flag: 'allow-source', help: '' }),
  databaseUrl: secret({ flag: 'database-url', allowFlag: true, help: '' }),
})

it.each<[string, string[], string]>([
  ['nothing that was not given', [], ''],
  ['values and places', ['--data-dir', '/my data', '--port', '0'], "--port 0 --data-dir '/my data'"],
  ['what was repeated, each time', ['--allow-source', 'a', '--allow-source', 'b'], '--allow-source a --allow-source b'],
  ['a switch as it was set', ['--auto-approve'], '--auto-approve'],
  ['a switch as it was unset', ['--auto-approve=false'], '--auto-approve false'],
  ['the name of a secret alone', ['--database-url', 'postgres://u:canary@h/d'], '--database-url …'],
])('carries on %s', (_, args, want) => {
  const command = new Command()
  for (const option of [...Object.values(settings).map(settingOption), ...serviceOptions()]) command.addOption(option)
  command.parse(args, { from: 'user' })
  const given = givenFlags(settings, collectOptions(command))
  expect(given.map(({ text }) => text).join(' ')).toBe(want)
})
