// `muster nats-config`: a NATS server that knows who connects.
import { type Command, Option } from 'commander'
import { createPrinter } from '../output/printer.ts'
import type { Shell } from '../shell.ts'
import { defineCommand, givenOptions } from './define-command.ts'

export function natsConfig(parent: Command, shell: Shell): Command {
  const command = defineCommand(parent, {
    name: 'nats-config',
    summary: 'Make the configuration of a NATS server that only lets in approved nodes',
    details:
      'Writes nats.conf for the server, and nats-account.seed, with which controllers give each approved node a token for its own subjects. nats.conf holds no secret: the user that runs nats-server must be able to read it (Debian: nats). Of the seed, only the users that run the controllers should be: give it to every controller of the cluster, and to nobody else.',
    options: [
      new Option('--out <dir>', 'where to write them').default('.'),
      new Option('-o, --output <format>', 'json prints the paths of the files').choices(['text', 'json']),
    ],
    examples: [
      'muster nats-config --out /etc/muster',
      'nats-server -c /etc/muster/nats.conf',
      'MUSTER_NATS_ACCOUNT_SEED_FILE=/etc/muster/nats-account.seed muster controller …',
    ],
  })
  return command.action(async () => {
    const { writeNatsConfig } = await import('../serve/write-nats-config.ts')
    const values = givenOptions(command)
    const files = await writeNatsConfig(String(values['out']))
    const print = createPrinter(shell.terminal, values['output'] === 'json' ? 'json' : 'text')
    print.result(files, () =>
      [
        `Server   nats-server -c ${files.config}`,
        `Seed     MUSTER_NATS_ACCOUNT_SEED_FILE=${files.seed} for every controller (secret: whoever has it can speak for every node)`,
      ].join('\n'),
    )
  })
}
