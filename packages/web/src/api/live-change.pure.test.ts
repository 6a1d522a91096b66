import { NodeView, type OperationFilter, type OperationView } from '@muster/protocol'
import { expect, it } from 'vitest'
import { appendSample, matchesFilter, type NodeHistory } from './live-change.pure.ts'

const node = (seen: string | null, inFlight = 0): NodeView =>
  NodeView.parse({
    ...{ id: 'n-1', name: 'a', node_type: 'backend', status: 'healthy', status_reason: '', draining: false, labels: {} },
    ...{ resources: { available_ram: 5 }, vram_budget: null, version: '1', os: 'linux', arch: 'x64', capability: 'default', features: [] },
    ...{ gateway_url: '', public_key: '', created_at: '', approved_at: null, last_seen_at: seen, in_flight: inFlight, models: [] },
    ...{ backends: [], pending_ops: 0 },
  })
const at = (time: string) => `2026-01-01T${time}.000Z`
const empty: NodeHistory = { interval_seconds: 15, samples: [] }
const seen = ({ samples }: NodeHistory): unknown[] => samples.map(({ at: when, in_flight }) => [when.slice(11, 19), in_flight])

it('keeps the last sample of each interval, in the order of time', () => {
  let history = appendSample(empty, node(at('12:00:01'), 1))
  history = appendSample(history, node(at('12:00:14'), 2))
  history = appendSample(history, node(at('12:00:16'), 3))
  expect(seen(history)).toEqual([
    ['12:00:00', 2],
    ['12:00:15', 3],
  ])
  expect(appendSample(history, node(at('12:00:01'), 9))).toBe(history)
})
it('drops samples older than an hour, and ignores a node without heartbeat', () => {
  const history = appendSample(empty, node(at('12:00:00'), 1))
  expect(seen(appendSample(history, node(at('13:00:00'), 2)))).toEqual([['13:00:00', 2]])
  expect(appendSample(history, node(null))).toBe(history)
})

it.each<[OperationView['state'], string | undefined, OperationFilter[]]>([
  ['running', undefined, ['active', 'all']],
  ['background', undefined, ['active', 'all']],
  ['failed', undefined, ['finished', 'all']],
  ['failed', 'then', ['all']],
])('an operation that is %s and was dismissed %s is listed in %j', (state, dismissedAt, want) => {
  const operation = { state, ...(dismissedAt === undefined ? {} : { dismissed_at: dismissedAt }) } as OperationView
  expect((['active', 'finished', 'all'] as const).filter((filter) => matchesFilter(filter, operation))).toEqual(want)
})
