// The sentence of the overview page.
import type { ModelView, NodeView } from '@muster/protocol'
import { formatCount, plural } from '../../format.ts'
import type { LastMinute } from '../traffic/traffic.pure.ts'

export function fleetSentence(nodes: readonly NodeView[], models: readonly ModelView[], traffic: LastMinute): string {
  return [nodesSentence(nodes), replicasSentence(models), trafficSentence(traffic)].filter((part) => part !== '').join(' ')
}

const order = ['pending', 'unhealthy', 'offline', 'draining'] as const

function nodesSentence(nodes: readonly NodeView[]): string {
  if (nodes.length === 0) return 'No nodes yet.'
  const count = (state: string): number => nodes.filter(({ status }) => status === state).length
  const others = order.filter((state) => count(state) > 0).map((state) => `${formatCount(count(state))} ${state}`)
  if (others.length === 0)
    return `${plural(nodes.length, 'node')}, ${nodes.length === 1 ? 'healthy' : nodes.length === 2 ? 'both healthy' : 'all healthy'}.`
  return `${plural(nodes.length, 'node')}: ${[`${formatCount(count('healthy'))} healthy`, ...others].join(', ')}.`
}

function replicasSentence(models: readonly ModelView[]): string {
  const ready = models.reduce((sum, model) => sum + model.replicas_ready, 0)
  const desired = models.reduce((sum, model) => sum + Math.max(model.replicas_ready, model.replicas_desired), 0)
  if (models.length === 0) return ''
  return desired === 0 ? 'No models loaded.' : `${formatCount(ready)} of ${plural(desired, 'replica')} ready.`
}

function trafficSentence({ requestsPerSecond, tokensPerSecond, errors, overloaded, clientErrors }: LastMinute): string {
  if (requestsPerSecond === 0) return 'No requests in the last minute.'
  const parts = [
    ...[`${rate(requestsPerSecond)} requests/s`, `${rate(tokensPerSecond)} tokens/s`],
    ...(overloaded === 0 ? [] : [`${formatCount(overloaded)} overloaded`]),
    ...(clientErrors === 0 ? [] : [plural(clientErrors, 'client error')]),
  ]
  return `${parts.join(', ')} and ${errors === 0 ? 'no errors' : plural(errors, 'error')} in the last minute.`
}

const rate = (value: number): string => (value > 0 && value < 0.1 ? value.toFixed(2) : formatCount(value))
