// Writes the tables of docs/api.md: the routes from their definitions, the metrics from those who count them.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as protocol from '@muster/protocol'
import { createMetrics } from '../packages/controller/src/metrics.ts'
import { createWorkerMetrics } from '../packages/worker/src/metrics.ts'
import { root } from './environment.ts'
import { markdownTable, withGeneratedParts } from './generated-part.ts'

export const apiPage = join(root, 'docs', 'api.md')

export async function renderApiDoc(page: string): Promise<string> {
  const { registry } = createMetrics()
  const worker = createWorkerMetrics({ resources: () => protocol.Resources.parse({}), isBusConnected: () => false })
  return withGeneratedParts(page, {
    routes: routesTable(),
    'controller metrics': metricsTable(await registry.metrics()),
    'worker metrics': metricsTable(await worker.render()),
  })
}

const mayCall: Readonly<Record<protocol.Access, string>> = {
  open: 'anyone',
  inference: '`inference` or `admin` key; on a loopback host anyone',
  metrics: '`read` or `admin` key; on a loopback host anyone',
  read: '`read` or `admin` key',
  admin: '`admin` key',
  node: 'a worker, by its signature',
}

/** Every group of routes that the protocol exports, so that a new one is not forgotten here. */
function routesTable(): string {
  const groups = Object.entries(protocol).filter(([name]) => name.endsWith('Routes'))
  const routes = groups.flatMap(([, group]) => Object.values(group as Readonly<Record<string, protocol.Route>>))
  const rows = routes
    .toSorted((a, b) => a.path.localeCompare(b.path, 'en'))
    .map((route) => [`\`${route.method}\``, `\`${route.path}\``, mayCall[route.access], route.summary])
  return markdownTable(['Method', 'Path', 'Who may call', 'Summary'], rows)
}

/** From the text that Prometheus reads. Node's own metrics, which are the same everywhere, are left out. */
function metricsTable(exposition: string): string {
  const found = [...exposition.matchAll(/^# HELP (muster_\S+) (.*)\n# TYPE \S+ (\S+)$/gm)]
  return markdownTable(
    ['Metric', 'Type', 'Meaning'],
    found.map(([, name = '', help = '', type = '']) => [`\`${name}\``, type, help]),
  )
}

if (import.meta.main) await writeFile(apiPage, await renderApiDoc(await readFile(apiPage, 'utf8')))
