// Measures the gain of keeping a conversation at one replica: chats of several turns on four llama processes with the tiny
// model, which keep what they have evaluated. Chosen by Muster's own rules, and in turns; asked directly, because the way
// through controller and gateway is the same for all (proxy.ts measures it).
import { loadavg } from 'node:os'
import { createProcesses } from '@muster/testkit'
import { chooseReplica, prefixKeyOf, textKeyOf } from '../packages/controller/src/routing/replica-choice.pure.ts'
import { createInFlight } from '../packages/controller/src/routing/in-flight.ts'
import { startLlama, untilLoaded } from '../tests/llama/server.ts'
import { costOf } from './process-cost.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const conversations = Number(process.env['BENCH_CONVERSATIONS'] ?? 24)
const [replicaCount, turns, clients, path] = [4, 4, 8, '/v1/chat/completions']
const policies = ['prefix', 'least', 'round robin'] as const
type Policy = (typeof policies)[number]

interface Replica {
  readonly id: string
  readonly url: string
  readonly mark: number
  readonly pid: number
}
interface Turn {
  readonly turn: number
  readonly firstTokenMs: number
  readonly promptTokens: number
  readonly cachedTokens: number
}
interface Run {
  readonly seen: readonly Turn[]
  readonly seconds: number
  /** Sum over all replicas. */
  readonly cpuSeconds: number
}
type Message = Readonly<{ role: string; content: string }>
interface Event {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[]
  readonly usage?: { readonly prompt_tokens: number; readonly prompt_tokens_details: { readonly cached_tokens: number } }
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const loads = (): string =>
  loadavg()
    .map((load) => load.toFixed(1))
    .join(' ')

const words = ['story', 'capital', 'colour', 'number', 'friend', 'language', 'animal', 'day', 'sun', 'project']
const saying = (seed: number, count: number): Message => ({
  role: 'user',
  content: Array.from({ length: count }, (_, i) => words[(seed * (i + 3) + i * i) % words.length]).join(' '),
})

/** Each for its own user, as assistants are. */
const systemOf = (seed: number): Message => ({
  role: 'system',
  content: `You help ${seed.toString(36)}. ${'Answer in short words. '.repeat(4)}${saying(seed, 40).content}`,
})

async function ask({ url }: Replica, messages: readonly Message[]): Promise<Omit<Turn, 'turn'> & { text: string }> {
  const began = performance.now()
  const more = { model: 'tiny', stream: true, stream_options: { include_usage: true }, max_tokens: 16, temperature: 0 }
  const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify({ messages, ...more }) })
  if (response.status !== 200 || response.body === null) throw new Error(`${response.status} ${await response.text()}`)
  let [rest, text, firstTokenMs] = ['', '', Number.NaN]
  let usage: Event['usage']
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines.filter((each) => each.startsWith('data: {'))) {
      const event = JSON.parse(line.slice(6)) as Event
      text += event.choices[0]?.delta.content ?? ''
      if (text !== '' && Number.isNaN(firstTokenMs)) firstTokenMs = performance.now() - began
      usage = event.usage ?? usage
    }
  }
  return {
    text,
    firstTokenMs: Number.isNaN(firstTokenMs) ? performance.now() - began : firstTokenMs,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details.cached_tokens ?? 0,
  }
}

/** All begin at once; each has its next turn when all have had the one before, in another order, eight at a time. */
async function measure(policy: Policy, replicas: readonly Replica[], salt: number): Promise<Run> {
  const inFlight = createInFlight()
  const chats = Array.from({ length: conversations }, (_, i) => [systemOf(salt * 1_000 + i), saying(salt * 1_000 + i, 20)])
  const seen: Turn[] = []
  let count = 0
  const pick = (messages: readonly Message[]): Replica | undefined => {
    count += 1
    if (policy === 'round robin') return replicas[count % replicas.length]
    const key = policy === 'prefix' ? prefixKeyOf(path, { messages }) : null
    const about = { candidates: replicas, isExcluded: () => false, turn: count, key }
    return chooseReplica<Replica>({ ...about, inFlight: ({ id }) => inFlight.of(id), markOf: ({ mark }) => mark })?.candidate
  }
  const cpu = (): number => sum(replicas.map(({ pid }) => costOf(pid).cpuSeconds))
  const [began, cpuBefore] = [performance.now(), cpu()]
  for (let turn = 1; turn <= turns; turn += 1) {
    const waiting = chats.map((chat, i) => ({ chat, at: textKeyOf(`${salt} ${turn} ${i}`) })).toSorted((a, b) => a.at - b.at)
    const client = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const replica = pick(next.chat)
        if (replica === undefined) throw new Error('there is always one')
        using _ = inFlight.open(replica.id)
        const { text, ...answer } = await ask(replica, next.chat)
        seen.push({ turn, ...answer })
        next.chat.push({ role: 'assistant', content: text }, saying(next.at % 1_000, 8))
      }
    }
    await Promise.all(Array.from({ length: turn === 1 ? conversations : clients }, client))
  }
  return { seen, seconds: (performance.now() - began) / 1_000, cpuSeconds: cpu() - cpuBefore }
}

/** Cost of one choice in a controller, in µs. */
function costOfChoosing(): Record<string, string> {
  const timed = (work: (i: number) => unknown): string => {
    for (let i = 0; i < 20_000; i += 1) work(i)
    // Processor time: others have the processor meanwhile.
    const before = process.cpuUsage()
    for (let i = 0; i < 20_000; i += 1) work(i)
    const { user, system } = process.cpuUsage(before)
    return ((user + system) / 20_000).toFixed(2)
  }
  const body = (chars: number) => ({ messages: [systemOf(1), { role: 'user', content: 'x'.repeat(chars) }, saying(1, 20)] })
  const among = (count: number, key: number | null) => {
    const candidates = Array.from({ length: count }, (_, i) => ({ mark: textKeyOf(`r-${i}`), count: i % 3 }))
    return timed((turn) =>
      chooseReplica<(typeof candidates)[number]>({
        ...{ candidates, inFlight: (each) => each.count, isExcluded: () => false, turn },
        ...{ key: key === null ? null : key + turn, markOf: (each) => each.mark },
      }),
    )
  }
  const [short, long] = [body(200), body(20_000)]
  return {
    'key of 1 kB': timed(() => prefixKeyOf(path, short)),
    'key of 20 kB': timed(() => prefixKeyOf(path, long)),
    'prefix among 4': among(4, 1),
    'least among 4': among(4, null),
    'prefix among 1,000': among(1_000, 1),
  }
}

console.log('choosing, µs')
console.table([costOfChoosing()])
const processes = createProcesses()
try {
  const started = await Promise.all(
    Array.from({ length: replicaCount }, async () => untilLoaded(await startLlama(processes, { options: { parallel: 8 } }))),
  )
  const replicas = started.map(({ url, process }, i) => ({ id: `r-${i}`, url, mark: textKeyOf(`r-${i}`), pid: process.pid }))
  console.log(`load of the machine at the start: ${loads()}`)
  const results = new Map<Policy, Run[]>(policies.map((policy) => [policy, []]))
  for (let round = 0; round < rounds; round += 1) {
    // Others each time: nobody finds what another left.
    for (const [i, policy] of policies.entries())
      results.get(policy)?.push(await measure(policy, replicas, round * policies.length + i + (Date.now() % 997)))
  }
  console.table(
    policies.map((policy) => {
      const runs = results.get(policy) ?? []
      const later = runs.flatMap(({ seen }) => seen).filter(({ turn }) => turn > 1)
      const firstTokens = later.map(({ firstTokenMs }) => firstTokenMs)
      return {
        policy,
        'first token, turns after the first, p50 ms': median(firstTokens).toFixed(1),
        'p90 ms': (firstTokens.toSorted((a, b) => a - b)[Math.floor(firstTokens.length * 0.9)] ?? Number.NaN).toFixed(1),
        'of the prompt from the cache': `${((100 * sum(later.map((each) => each.cachedTokens))) / sum(later.map((each) => each.promptTokens))).toFixed(0)}%`,
        'CPU ms per answer, by round': runs.map(({ seen, cpuSeconds }) => ((1_000 * cpuSeconds) / seen.length).toFixed(1)).join(', '),
        'answers/s, by round': runs.map(({ seen, seconds }) => (seen.length / seconds).toFixed(1)).join(', '),
      }
    }),
  )
  console.log(`load of the machine at the end: ${loads()}`)
} finally {
  await processes.stopAll()
}
