// The frame of every command that talks to a controller: finds the server and the key, gives the
// command a client and a printer.
import type { Command } from 'commander'
import { type ApiClient, createApiClient } from '../client/api-client.ts'
import { resolveTarget } from '../client/target.ts'
import { usageError } from '../cli-error.ts'
import { dataDirOf } from '../data-dir-option.ts'
import { createPrinter, type Printer } from '../output/printer.ts'
import type { Shell } from '../shell.ts'
import { clientOptions, type CommandDefinition, configOption, defineCommand, givenOptions } from './define-command.ts'

export interface ClientCall {
  readonly shell: Shell
  readonly api: ApiClient
  readonly print: Printer
  /** The arguments that are not options, in their order. */
  readonly words: readonly string[]
  option(name: string): string | undefined
  flag(name: string): boolean
  /** `--no-<name>` was given. */
  isOff(name: string): boolean
  /** Every value of an option that may be repeated. */
  list(name: string): readonly string[]
}

export interface ClientCommandDefinition extends CommandDefinition {
  run(call: ClientCall): Promise<void>
}

export function clientCommand(parent: Command, shell: Shell, definition: ClientCommandDefinition): Command {
  const command = defineCommand(parent, { ...definition, options: [...(definition.options ?? []), ...clientOptions()] })
  // Every command takes it; but no setting in the file concerns one that only talks to a controller.
  command.addOption(configOption().hideHelp())
  return command.action(async () => {
    const options = givenOptions(command)
    const text = (name: string): string | undefined => {
      const value = options[name]
      return typeof value === 'string' ? value : undefined
    }
    const dataDir = dataDirOf(options['dataDir'], shell.env)
    const target = resolveTarget({ url: text('url'), dataDir, env: shell.env })
    if (target.isKeyWithheld)
      throw usageError(
        `${target.url.origin} (${target.urlFrom}) is not the controller of ${dataDir}, so the key in ${target.keyFrom} is not sent there`,
        'give a key of that cluster with MUSTER_ADMIN_KEY or MUSTER_ADMIN_KEY_FILE',
      )
    await definition.run({
      shell,
      api: createApiClient({ target, userAgent: `muster/${shell.version}`, clock: shell.clock }),
      print: createPrinter(shell.terminal, text('output') === 'json' ? 'json' : 'text'),
      words: command.args,
      option: text,
      flag: (name) => options[name] === true,
      isOff: (name) => options[name] === false,
      list: (name) => {
        const value = options[name]
        return Array.isArray(value) ? value.map(String) : []
      },
    })
  })
}
