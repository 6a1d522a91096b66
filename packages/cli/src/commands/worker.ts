// `muster worker --join URL` and `muster join URL`: a worker on this machine.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { loadWorkerSettings } from '../serve/load-definitions.ts'
import { serviceCommand, type ServiceCommandDefinition } from './service-command.ts'

type Definition = ServiceCommandDefinition<Awaited<ReturnType<typeof loadWorkerSettings>>>

const shared: Pick<Definition, 'settings' | 'start'> = {
  settings: loadWorkerSettings,
  start: async ({ shell: { env, clock }, ...start }) => {
    const { startWorkerService } = await import('../serve/start-worker.ts')
    return startWorkerService({ ...start, env, clock })
  },
}
const details =
  'The token is needed only the first time. An administrator then lets the node in with `muster nodes approve`. What is given is remembered: the next time `muster worker` alone is enough.'

export const worker = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    ...shared,
    name: 'worker',
    summary: 'Run a worker on this machine, and join a cluster with it',
    details,
    examples: ['muster worker --join https://muster.example --token T --labels rack=b2', 'muster worker'],
  })

export const join = (parent: Command, shell: Shell): Command =>
  serviceCommand(parent, shell, {
    ...shared,
    name: 'join',
    summary: 'Join a cluster with this machine (the same as worker --join URL)',
    details,
    arguments: [['<url>', 'the URL of a controller']],
    argumentFlags: ['join'],
    examples: ['muster join https://muster.example --token T'],
  })
