// Whether a controller can listen where it is told to, or already does.
import { createServer } from 'node:net'
import { probeVersion } from './ask-http.ts'
import { type Check, fail, ok, type Verdict } from './verdict.ts'

export type PortState = 'free' | 'in_use' | 'forbidden' | 'no_such_address' | 'unusable'

export function judgePort(facts: { host: string; port: number; state: PortState; musterVersion: string | null }): Verdict {
  const at = `${facts.host}:${facts.port}`
  switch (facts.state) {
    case 'free':
      return ok(`${at} is free`)
    case 'in_use':
      return facts.musterVersion === null
        ? fail(`${at} is taken by another program`, 'stop that program, or choose another port with --port')
        : ok(`${at} is held by a Muster controller (${facts.musterVersion})`)
    case 'forbidden':
      return fail(`this user may not listen on ${at}`, 'choose a port above 1023 with --port')
    case 'no_such_address':
      return fail(`${facts.host} is not an address of this machine`, 'give one that is with --host; 0.0.0.0 means all')
    case 'unusable':
      return fail(`can't listen on ${at}`, 'choose another --host or --port')
  }
}

export const portCheck = ({ host, port }: { host: string; port: number }): Check => ({
  name: 'port',
  run: async (signal) => {
    const state = port === 0 ? 'free' : await tryToListen({ host, port })
    const musterVersion = state === 'in_use' ? await probeVersion(new URL(`http://${reachable(host)}:${port}`), signal) : null
    return judgePort({ host, port, state, musterVersion })
  },
})

/** An address that stands for all of them is asked through one of them. */
const reachable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host

const states: Readonly<Record<string, PortState>> = {
  EADDRINUSE: 'in_use',
  EACCES: 'forbidden',
  EADDRNOTAVAIL: 'no_such_address',
  ENOTFOUND: 'no_such_address',
}

function tryToListen(at: { host: string; port: number }): Promise<PortState> {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) => resolve(states[error.code ?? ''] ?? 'unusable'))
    server.listen({ ...at, exclusive: true }, () => server.close(() => resolve('free')))
  })
}
