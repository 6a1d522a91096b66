// The tree of commands. Their definitions are loaded at every start; the code of controller, worker, doctor and pack when
// such a command runs.
import type { Command } from 'commander'
import { addSharedOptions, addClientCommand, HelpfulCommand } from './commands/command.ts'
import { backends } from './commands/backends.ts'
import { chat } from './commands/chat.ts'
import { controller, join, natsConfig, up, worker } from './commands/serve.ts'
import { doctor } from './commands/doctor.ts'
import { galleries } from './commands/galleries.ts'
import { importCommands } from './commands/import.ts'
import { keys, loginLink } from './commands/keys.ts'
import { models } from './commands/models.ts'
import { nodes } from './commands/nodes.ts'
import { ops } from './commands/ops.ts'
import { pack } from './commands/pack.ts'
import { settings } from './commands/settings.ts'
import { status } from './commands/status.ts'
import type { Shell } from './shell.ts'

export function createProgram(shell: Shell): Command {
  const { terminal } = shell
  const program = new HelpfulCommand('muster')
    .description('A control plane for self-hosted AI inference: one fleet of all your machines.')
    .version(shell.version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(terminal.commands.writeHelp(text.replace(/\n$/, ''))),
      writeErr: (text) => terminal.err(text.replace(/\n$/, '')),
      getOutHelpWidth: () => terminal.width ?? 80,
      getErrHelpWidth: () => terminal.width ?? 80,
    })
    .addHelpText('after', '\nOn one machine: `muster up`. `muster help COMMAND` explains a command.')
  addSharedOptions(program)
  program.hook('preSubcommand', async (_, chosen) => {
    if (chosen instanceof HelpfulCommand) await chosen.prepare()
  })
  // Commander's own help command would show a command before `prepare` added its options.
  program
    .helpCommand(false)
    .command('help [command...]', { hidden: true })
    .action(async (words: string[]) => void (await program.parseAsync([...words, '--help'], { from: 'user' })))
  program.commandsGroup('Run:')
  for (const define of [up, controller, worker, join, natsConfig]) define(program, shell)
  program.commandsGroup('Use:')
  for (const define of [status, nodes, backends, models, chat, galleries, ops, pack, keys, settings, loginLink, importCommands, doctor]) {
    if (typeof define === 'function') define(program, shell)
    else addClientCommand(program, shell, define)
  }
  return program
}
