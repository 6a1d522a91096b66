// From a process that was just started to one that answers for its model. Nothing is said to a port before it is known
// that our own process listens there. There is no limit of time, only of silence: large models take as long as they take.
import { readFile } from 'node:fs/promises'
import { abortable } from '@muster/host'
import { FleetError, type ReplicaId } from '@muster/protocol'
import type { BackendAddress, Driver, ReplicaSpec } from '../drivers/driver.ts'
import { silenceFailure } from './describe-exit.ts'
import { whoListens } from './listens.ts'
import type { Replica, ReplicaDeps } from './replica.ts'
import type { LeadProcess } from './spawn-process.ts'

export type Coming = Readonly<{ spec: ReplicaSpec; address: BackendAddress; driver: Driver; process: LeadProcess }>

const pollMs = 50
const lookMs = 1_000

/** Throws FleetError; also when the process ends, the load is called off, or nothing moves for too long. */
export async function awaitReady(replica: Replica, coming: Coming, deps: ReplicaDeps): Promise<void> {
  const { spec, address, driver, process } = coming
  const over = new AbortController()
  const signal = AbortSignal.any([replica.calling.signal, over.signal])
  const sign = { last: deps.clock.monotonic() }
  const onSign = (): void => {
    sign.last = deps.clock.monotonic()
    replica.reporter.sign()
  }
  void process.exited.then(() => over.abort(ended()))
  void watchSilence(replica, { sign, onSign, over, pid: process.identity.pid }, deps)
  try {
    signal.throwIfAborted()
    const comeUp = async (): Promise<void> => {
      await untilListening({ replica, address, process, signal }, deps)
      if (!replica.record.isBare) await driver.becomeReady(spec, address, { signal, onSign })
      await untilListening({ replica, address, process, signal }, deps)
    }
    // A driver that does not listen to the signal must not keep a dead process's replica from its end.
    await abortable(comeUp(), signal)
  } finally {
    over.abort(ended())
  }
}

const ended = (): FleetError => new FleetError({ code: 'unavailable', retry: 'backoff', message: 'its process ended before it was ready' })

type Listening = Readonly<{ replica: Replica; address: BackendAddress; process: LeadProcess; signal: AbortSignal }>

async function untilListening({ replica, address, process, signal }: Listening, { workerId, clock }: ReplicaDeps): Promise<void> {
  // A socket in a directory of ours that nobody else can enter needs no proof.
  if (address.kind === 'unix') return
  const owner = { group: process.identity.pid, replicaId: replica.id, workerId }
  for (let foreign = 0; ;) {
    const found = await whoListens(address.port, owner)
    if (found === 'ours') return
    // Twice: it may have been handed from one of our processes to another while we looked.
    foreign = found === 'foreign' ? foreign + 1 : 0
    if (foreign > 1) throw portTaken(replica.id, address.port)
    await clock.sleep(pollMs, signal)
  }
}

const portTaken = (id: ReplicaId, port: number): FleetError =>
  new FleetError({
    code: 'unavailable',
    retry: 'backoff',
    message: `another program took port ${port} before the process of ${id} could listen there; another port is tried next`,
  })

type Silence = Readonly<{ sign: { last: number }; onSign: () => void; over: AbortController; pid: number }>

/** What it writes, and what it reads from disk, are signs of life too. */
async function watchSilence(replica: Replica, { sign, onSign, over, pid }: Silence, deps: ReplicaDeps): Promise<void> {
  const { clock, logs, pace } = deps
  let seen = ''
  for (;;) {
    const now = `${await logs.size(replica.id)} ${await bytesRead(pid)}`
    if (now !== seen && seen !== '') onSign()
    seen = now
    if (clock.monotonic() - sign.last >= pace.silenceMs) break
    try {
      await clock.sleep(Math.min(lookMs, pace.silenceMs / 4), over.signal)
    } catch {
      return
    }
  }
  over.abort(new FleetError(silenceFailure(pace.silenceMs, await logs.lastLines(replica.id))))
}

async function bytesRead(pid: number): Promise<string> {
  const counted = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '')
  return /^read_bytes: (\d+)$/m.exec(counted)?.[1] ?? ''
}
