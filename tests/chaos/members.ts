// Processes that can be killed, frozen, and started again on what they left.
import { readFileSync } from 'node:fs'
import { waitFor, type NatsServer, type StartedProcess, type TestPostgres } from '@muster/testkit'

export interface Member {
  readonly name: string
  readonly kind: 'controller' | 'worker' | 'nats' | 'postgres'
  isUp(): boolean
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves when it was started, not when it is ready. */
  start(): Promise<void>
  /** SIGSTOP: it keeps its connections and answers nothing. */
  freeze(): void
  thaw(): void
  /** Its output, over all its lives. */
  output(): string
}

export async function startMember(name: string, kind: Member['kind'], launch: () => Promise<StartedProcess>): Promise<Member> {
  const lives = [await launch()]
  return {
    ...{ name, kind },
    isUp: () => lives.at(-1)?.hasExited() === false,
    async kill() {
      lives.at(-1)?.kill('SIGKILL')
      await lives.at(-1)?.exited
    },
    start: async () => void lives.push(await launch()),
    freeze: () => lives.at(-1)?.kill('SIGSTOP'),
    thaw: () => lives.at(-1)?.kill('SIGCONT'),
    output: () => lives.map((life, index) => `── life ${index + 1}\n${life.output()}`).join('\n'),
  }
}

export function natsMember(nats: NatsServer): Member {
  let isUp = true
  return {
    ...{ name: 'nats', kind: 'nats' },
    isUp: () => isUp,
    async kill() {
      isUp = false
      await nats.kill('SIGKILL')
    },
    async start() {
      await nats.restart()
      isUp = true
    },
    freeze: () => signal(nats.pid, 'SIGSTOP'),
    thaw: () => signal(nats.pid, 'SIGCONT'),
    output: () => '',
  }
}

export function postgresMember(postgres: TestPostgres): Member {
  let isUp = true
  /** The first process first: a frozen one starts no new sessions. */
  const signalAll = (name: NodeJS.Signals): void => {
    if (!isUp) return
    for (const pid of [postgres.pid, ...childrenOf(postgres.pid)]) signal(pid, name)
  }
  return {
    ...{ name: 'postgres', kind: 'postgres' },
    isUp: () => isUp,
    async kill() {
      isUp = false
      const family = childrenOf(postgres.pid)
      postgres.kill('SIGKILL')
      // A frozen session does not notice that its server is gone.
      for (const pid of family) signal(pid, 'SIGCONT')
      // Its sessions end when they notice; a new server does not start beside them.
      await waitFor(() => family.every((pid) => !isRunning(pid)), { what: 'the sessions of the killed server to end' })
    },
    async start() {
      await postgres.restart()
      isUp = true
    },
    freeze: () => signalAll('SIGSTOP'),
    thaw: () => signalAll('SIGCONT'),
    output: () => '',
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
