// A network of its own for one worker: a namespace that reaches this machine over one cable, which can be pulled.
import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { promisify } from 'node:util'

export interface Network extends AsyncDisposable {
  /** As `ip netns exec` knows it. */
  readonly namespace: string
  /** Address of this machine, as seen from there. */
  readonly hostAddress: string
  readonly address: string
  /** Nothing gets through in either direction, and no side is notified. */
  pull(): Promise<void>
  plug(): Promise<void>
}

/** Only root may. */
export const canMakeNetworks = (): boolean => process.platform === 'linux' && process.getuid?.() === 0

export async function makeNetwork(): Promise<Network> {
  // Interfaces have at most 15 characters; the numbers keep runs beside each other apart.
  const [id, net] = [randomInt(0, 65_536).toString(16), randomInt(0, 64) * 4]
  const [namespace, here, there] = [`muster-${id}`, `mh-${id}`, `mn-${id}`]
  const prefix = `10.213.${randomInt(0, 256)}`
  const [hostAddress, address] = [`${prefix}.${net + 1}`, `${prefix}.${net + 2}`]
  const inside = (...args: string[]) => ip('netns', 'exec', namespace, 'ip', ...args)
  await ip('netns', 'add', namespace)
  await ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', namespace)
  await ip('addr', 'add', `${hostAddress}/30`, 'dev', here)
  await ip('link', 'set', here, 'up')
  await inside('addr', 'add', `${address}/30`, 'dev', there)
  await inside('link', 'set', there, 'up')
  await inside('link', 'set', 'lo', 'up')
  return {
    ...{ namespace, hostAddress, address },
    // At its far end: here the route stays, and what is sent is lost without a word.
    pull: () => inside('link', 'set', there, 'down'),
    plug: () => inside('link', 'set', there, 'up'),
    async [Symbol.asyncDispose]() {
      await ip('link', 'delete', here)
      await ip('netns', 'delete', namespace)
    },
  }
}

const run = promisify(execFile)
async function ip(...args: string[]): Promise<void> {
  await run('ip', args)
}
