// `muster status`: the cluster at a glance.
import { modelRoutes, type ModelView, type ResponseOf, systemRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { failureText } from '../models/describe-model.ts'
import { formatAge, plainText } from '../output/text.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { type ClientCommand } from './command.ts'

type Status = ResponseOf<typeof systemRoutes.status>

export const status: ClientCommand = {
  name: 'status',
  summary: 'Show the cluster at a glance',
  run: async ({ shell, api, print }) => {
    const { raw, body } = await api.call(systemRoutes.status)
    const models = await fetchModels(api)
    const counts = models === null ? {} : { models: Object.fromEntries(countBy(models.map((model) => model.state))) }
    print.result({ ...(typeof raw === 'object' ? raw : {}), ...counts }, () =>
      renderStatus({ ...body, models: models ?? [] }, { url: api.target.url.origin, now: shell.clock.now(), width: print.width }),
    )
  },
}

/** Null: a controller of an older version, without models. */
async function fetchModels(api: ApiClient): Promise<readonly ModelView[] | null> {
  try {
    return (await api.call(modelRoutes.list)).body.models
  } catch (error) {
    if (error instanceof CliError && error.status === 404) return null
    throw error
  }
}

interface StatusAndModels extends Status {
  readonly models: readonly ModelView[]
}

function renderStatus(body: StatusAndModels, at: { url: string; now: number; width: number | null }): string {
  const columns: Column<Status['controllers'][number]>[] = [
    { heading: 'CONTROLLER', cell: (controller) => controller.id, shrinks: true },
    { heading: 'URL', cell: (controller) => controller.url },
    { heading: 'VERSION', cell: (controller) => controller.version },
    { heading: 'UP', cell: (controller) => formatAge(controller.started_at, at.now), align: 'right' },
    { heading: 'SEEN', cell: (controller) => formatAge(controller.last_seen_at, at.now), align: 'right' },
  ]
  return [
    countSentence('node', Object.entries(body.nodes)),
    ...modelLines(body.models, at.now),
    '',
    renderFields([
      ['Muster', `${body.version} at ${at.url}`],
      ['Database', `PostgreSQL ${body.database.version}`],
      ['Bus', `${body.bus.kind === 'local' ? 'in-process' : 'NATS'}, ${body.bus.connected ? 'connected' : 'not connected'}`],
    ]),
    '',
    renderTable(columns, body.controllers, at.width),
  ].join('\n')
}

/** `5 nodes: 4 healthy, 1 unhealthy.` */
function countSentence(noun: string, counts: Iterable<readonly [string, number]>): string {
  const some = [...counts].filter(([, count]) => count > 0)
  const total = some.reduce((sum, [, count]) => sum + count, 0)
  if (total === 0) return `No ${noun}s yet.`
  const parts = some.toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${count} ${plainText(name)}`)
  return `${total} ${total === 1 ? noun : `${noun}s`}: ${parts.join(', ')}.`
}

function modelLines(models: readonly ModelView[], now: number): string[] {
  if (models.length === 0) return []
  const ready = models.reduce((sum, model) => sum + model.replicas_ready, 0)
  const desired = models.reduce((sum, model) => sum + model.replicas_desired, 0)
  const failed = models.filter((model) => model.failure !== null)
  return [
    `${countSentence('model', countBy(models.map((model) => model.state)))} ${ready} of ${desired} replicas are ready.`,
    ...failed.map((model) => plainText(`cannot load ${model.name}: ${failureText(model.failure, now)}`)),
  ]
}

function countBy(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}
