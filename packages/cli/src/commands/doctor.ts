// `muster doctor`: looks at this machine and at the controller it would talk to.
import type { Command } from 'commander'
import { createPrinter } from '../output/terminal.ts'
import type { Shell } from '../shell.ts'
import { clientOptions, configOption, defineCommand, givenOptions } from './command.ts'
import { loadControllerSettings } from '../serve/settings.ts'

export function doctor(parent: Command, shell: Shell): Command {
  const command = defineCommand(parent, {
    name: 'doctor',
    summary: 'Check this machine and the controller, and say what to do',
    details:
      'Looks at Node, the data directory, disk, port, controller, database, bus, clock, key and models. Changes nothing. Ends with 1 when a check fails.',
    options: [...clientOptions(), configOption()],
    examples: ['muster doctor', 'MUSTER_DATABASE_URL=postgres://db/muster muster doctor --nats-url nats://bus:4222'],
  })
  command.prepare = async () => {
    const { settingOption } = await import('../serve/setting-options.ts')
    const { host, port, databaseUrl, natsUrl } = await loadControllerSettings()
    for (const setting of [host, port, databaseUrl, natsUrl]) command.addOption(settingOption(setting))
  }
  return command.action(async () => {
    const [{ examine }, { renderFindings }] = await Promise.all([import('../doctor/examine.ts'), import('../doctor/checks.ts')])
    const values = givenOptions(command)
    const findings = await examine(values, shell)
    const isFine = findings.every(({ level }) => level !== 'fail')
    const print = createPrinter(shell.terminal, values['output'] === 'json' ? 'json' : 'text')
    print.result({ ok: isFine, checks: findings }, () => renderFindings(findings, { colours: shell.terminal.colours.out }))
    if (!isFine) shell.fail()
  })
}
