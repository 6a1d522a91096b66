// `muster controller`: one controller of a cluster.
import type { Command } from 'commander'
import { usageError } from '../cli-error.ts'
import type { Shell } from '../shell.ts'
import { loadControllerSettings } from '../serve/load-definitions.ts'
import { serviceCommand } from './service-command.ts'

export const controller = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    name: 'controller',
    summary: 'Run one controller of a cluster, on a PostgreSQL and a NATS of your own',
    examples: ['MUSTER_DATABASE_URL=postgres://muster@db/muster muster controller --nats-url nats://bus:4222 --host 0.0.0.0'],
    settings: loadControllerSettings,
    needed: ['database-url', 'nats-url'],
    start: async ({ shell: { env, version, clock, terminal }, settings, ...start }) => {
      if (settings.databaseUrl === undefined)
        throw usageError('--database-url is missing (or MUSTER_DATABASE_URL)', 'on one machine, `muster up` brings its own database')
      if (settings.natsUrl === '')
        throw usageError('--nats-url is missing (or MUSTER_NATS_URL)', 'on one machine, `muster up` brings its own bus')
      const { startUp } = await import('../serve/start-up.ts')
      return startUp({ ...start, settings: { ...settings, workers: 0 }, env, version, clock, print: terminal.out })
    },
  })
