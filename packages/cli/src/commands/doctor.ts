// `muster doctor`: checks this machine and the controller.
import type { Command } from 'commander'
import { createPrinter } from '../output/terminal.ts'
import { settingOption } from '../serve/setting-options.ts'
import { loadControllerSettings } from '../serve/settings.ts'
import type { Shell } from '../shell.ts'
import { clientOptions, configOption, defineCommand, collectOptions } from './command.ts'

export function doctor(parent: Command, shell: Shell): Command {
  const command = defineCommand(parent, {
    name: 'doctor',
    summary: 'Check this machine and the controller, and show how to fix problems',
    details:
      'Checks Node, the data directory, disk, port, controller, database, bus, clock, key and models. Changes nothing. Exits with 1 when a check fails.',
    options: [...clientOptions(), configOption()],
    examples: ['muster doctor', 'MUSTER_DATABASE_URL=postgres://db/muster muster doctor --nats-url nats://bus:4222'],
  })
  command.prepare = async () => {
    const { host, port, databaseUrl, natsUrl } = await loadControllerSettings()
    for (const setting of [host, port, databaseUrl, natsUrl]) command.addOption(settingOption(setting))
  }
  return command.action(async () => {
    const [{ examine }, { renderFindings }] = await Promise.all([import('../doctor/examine.ts'), import('../doctor/checks.ts')])
    const values = collectOptions(command)
    const { write } = shell.terminal.commands
    const findings = (await examine(values, shell)).map(({ advice, ...finding }) =>
      advice === undefined ? finding : { ...finding, advice: write(advice) },
    )
    const isFine = findings.every(({ level }) => level !== 'fail')
    const print = createPrinter(shell.terminal, values['output'] === 'json' ? 'json' : 'text')
    print.result({ ok: isFine, checks: findings }, () => renderFindings(findings, { colors: shell.terminal.colors.out }))
    if (!isFine) shell.fail()
  })
}
