// `muster up`: everything on one machine.
import type { Command } from 'commander'
import { defineSettings } from '@muster/host'
import type { Shell } from '../shell.ts'
import { loadControllerSettings, loadModelFileSettings } from '../serve/load-definitions.ts'
import { upSettings } from '../settings/up-settings.ts'
import { serviceCommand } from './service-command.ts'

export const up = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    name: 'up',
    summary: 'Run everything on this machine: a controller and its workers',
    details:
      'Needs no other service: the database is embedded and the bus is in the process, unless --database-url and --nats-url name others.',
    examples: ['muster up', 'muster up --workers 2 --port 9000', 'muster up --host 0.0.0.0 --nats-url nats://10.0.0.1:4222'],
    settings: async () => defineSettings({ ...(await loadControllerSettings()), ...upSettings, ...(await loadModelFileSettings()) }),
    start: async ({ shell: { env, version, clock, terminal }, ...start }) => {
      const { startUp } = await import('../serve/start-up.ts')
      return startUp({ ...start, firstModels: ['tiny'], env, version, clock, print: terminal.out })
    },
  })
