// Measures the cost of the path of a request: client → controller → gateway → backend, beside other proxies on the way to the same
// backend program. CPU by the kernel's count of the hops alone; all of them in one run, in turns, medians of the rounds.
import { createProcesses } from '@muster/testkit'
import { loadavg } from 'node:os'
import { Pool } from 'undici'
import { costOf, costOfFamily } from './process-cost.ts'
import { startTargets, type Target } from './proxy-targets.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const requests = Number(process.env['BENCH_REQUESTS'] ?? 4_000)
const streams = Number(process.env['BENCH_STREAMS'] ?? 200)
const eventsPerStream = 100
const openStreams = Number(process.env['BENCH_OPEN'] ?? 1_000)
const [clients, streamClients, single] = [32, 16, 300]

const path = '/v1/chat/completions'
const prompt = { model: 'bench', messages: [{ role: 'user', content: 'x'.repeat(400) }] }
const whole = JSON.stringify(prompt)
const streamed = JSON.stringify({ ...prompt, stream: true, max_tokens: eventsPerStream })
const held = JSON.stringify({ ...prompt, stream: true, hold: true })

interface Measured {
  readonly cpuPerRequestUs: number
  readonly requestsPerSecond: number
  readonly cpuPerEventUs: number
  /** One entry per hop, the first hop first. */
  readonly hops: string
  readonly p50Ms: number
}

const costsOf = ({ pids, hasChildren }: Target) => pids.map(hasChildren === true ? costOfFamily : costOf)
const cpuOf = (target: Target): readonly number[] => costsOf(target).map((cost) => cost.cpuSeconds)
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const rssOf = (target: Target): number => costsOf(target).reduce((all, cost) => all + cost.rssBytes, 0)
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

async function ask(pool: Pool, target: Target, body: string): Promise<void> {
  const answer = await pool.request({ method: 'POST', path, body, headers: { 'content-type': 'application/json', ...target.headers } })
  if (answer.statusCode !== 200) throw new Error(`${target.name} answered ${answer.statusCode}: ${await answer.body.text()}`)
  await answer.body.dump({ limit: 10_000_000 })
}

async function many(
  target: Target,
  { count, atOnce, body }: { count: number; atOnce: number; body: string },
): Promise<{ cpu: readonly number[]; seconds: number }> {
  const pool = new Pool(target.url, { connections: atOnce, bodyTimeout: 0 })
  await Promise.all(Array.from({ length: atOnce }, () => ask(pool, target, body)))
  const before = cpuOf(target)
  const began = performance.now()
  let left = count
  const client = async (): Promise<void> => {
    for (; left > 0; left -= 1) await ask(pool, target, body)
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  const seconds = (performance.now() - began) / 1_000
  const cpu = cpuOf(target).map((after, hop) => after - (before[hop] ?? 0))
  await pool.close()
  return { cpu, seconds }
}

async function latency(target: Target): Promise<number> {
  const pool = new Pool(target.url, { connections: 1 })
  const took: number[] = []
  for (let i = 0; i < single; i += 1) {
    const began = performance.now()
    await ask(pool, target, whole)
    took.push(performance.now() - began)
  }
  await pool.close()
  return median(took)
}

async function measure(target: Target): Promise<Measured> {
  // The slowest of them takes twenty times as long as the others; a quarter of the requests measures it well enough.
  const share = target.name.startsWith('Portkey') ? 4 : 1
  const unary = await many(target, { count: requests / share, atOnce: clients, body: whole })
  const streaming = await many(target, { count: streams / share, atOnce: streamClients, body: streamed })
  return {
    cpuPerRequestUs: (1e6 * sum(unary.cpu)) / (requests / share),
    requestsPerSecond: requests / share / unary.seconds,
    cpuPerEventUs: (1e6 * sum(streaming.cpu)) / ((streams / share) * eventsPerStream),
    hops: [unary, streaming]
      .map(({ cpu }, i) =>
        cpu.map((each) => ((1e6 * each) / (i === 0 ? requests / share : (streams / share) * eventsPerStream)).toFixed(0)).join(' + '),
      )
      .join('; '),
    p50Ms: await latency(target),
  }
}

/** Memory of the hops per stream that is open and silent, and how long it took until all had their first event. */
async function hold(target: Target): Promise<{ kbPerStream: number; seconds: number }> {
  const pool = new Pool(target.url, { bodyTimeout: 0 })
  const before = rssOf(target)
  const began = performance.now()
  const ending = new AbortController()
  const open = async (): Promise<void> => {
    const answer = await pool.request({
      ...{ method: 'POST', path, body: held, signal: ending.signal },
      headers: { 'content-type': 'application/json', ...target.headers },
    })
    answer.body.on('error', () => undefined)
    await new Promise((resolve) => answer.body.once('data', resolve))
  }
  await Promise.all(Array.from({ length: openStreams }, open))
  const seconds = (performance.now() - began) / 1_000
  const kbPerStream = (rssOf(target) - before) / 1_000 / openStreams
  ending.abort()
  await pool.destroy()
  return { kbPerStream, seconds }
}

const processes = createProcesses()
const started = await startTargets(processes)
try {
  for (const why of started.skipped) console.log(`left out: ${why}`)
  console.log(
    `load of the machine at the start: ${loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  )
  const results = new Map<string, Measured[]>(started.targets.map((target) => [target.name, []]))
  for (const target of started.targets) await many(target, { count: 500, atOnce: 16, body: whole })
  for (let round = 0; round < rounds; round += 1) {
    for (const target of started.targets) {
      // One of the others may fail under load; that is worth knowing, and no reason to measure nothing.
      const measured = await measure(target).catch((error: unknown) => console.log(`${target.name}: ${String(error)}`))
      if (measured !== undefined) results.get(target.name)?.push(measured)
    }
  }
  const of = (target: Target, field: Exclude<keyof Measured, 'hops'>): number =>
    median((results.get(target.name) ?? []).map((each) => each[field]))
  const [direct] = started.targets
  const rows = []
  for (const target of started.targets) {
    const cpu = of(target, 'cpuPerRequestUs')
    const memory = await hold(target).catch(() => ({ kbPerStream: Number.NaN, seconds: Number.NaN }))
    rows.push({
      way: target.name,
      'CPU µs/request': cpu.toFixed(0),
      'requests/s per core': cpu === 0 ? '' : (1e6 / cpu).toFixed(0),
      'requests/s here': of(target, 'requestsPerSecond').toFixed(0),
      'CPU µs/event': of(target, 'cpuPerEventUs').toFixed(1),
      'added p50 ms': (of(target, 'p50Ms') - (direct === undefined ? 0 : of(direct, 'p50Ms'))).toFixed(2),
      [`kB/stream, ${openStreams} open`]: memory.kbPerStream.toFixed(0),
      'all begun after s': memory.seconds.toFixed(1),
      'by hop: µs/request; µs/event': results.get(target.name)?.at(-1)?.hops ?? '',
      note: target.note,
    })
  }
  console.table(rows)
  console.log(
    `load of the machine at the end: ${loadavg()
      .map((load) => load.toFixed(1))
      .join(' ')}`,
  )
} finally {
  await started.stop()
}
