// A real nats-server for one test file, on loopback, that can be killed, frozen and restarted.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { freePort } from './free-port.ts'
import { createProcesses } from './processes.ts'
import type { StartedProcess } from './processes.ts'
import { waitFor } from './wait-for.ts'

export interface NatsServer extends AsyncDisposable {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** SIGKILL and SIGTERM resolve when the process is gone. SIGSTOP is a server that accepts and never answers. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** On the same port with the same arguments; a running one is killed first. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export interface NatsServerOptions {
  readonly port?: number
  /** Where it listens; loopback by default. */
  readonly host?: string
  /** More arguments of nats-server, such as `-c FILE`. */
  readonly args?: readonly string[]
}

/** Comes when the server accepts connections; lives no longer than this process. */
export async function startNats({ port: wantedPort, host = '127.0.0.1', args = [] }: NatsServerOptions = {}): Promise<NatsServer> {
  const port = wantedPort ?? (await freePort())
  const processes = createProcesses()
  const start = async (): Promise<StartedProcess> => {
    const server = await processes.start('nats-server', { args: ['-a', host, '-p', String(port), ...args] })
    await waitFor(() => server.hasExited() || greets(host, port), { what: `nats-server to accept connections on port ${port}` })
    if (server.hasExited()) throw new Error(`nats-server ended at its start:\n${server.output()}`)
    return server
  }
  let server = await start()

  const end = async (signal: NodeJS.Signals): Promise<void> => {
    server.kill(signal)
    await server.exited
  }
  // Killed first: a frozen server does not listen to the SIGTERM of `stopAll`.
  const stop = async (): Promise<void> => {
    await end('SIGKILL')
    await processes.stopAll()
  }
  return {
    url: `nats://${host}:${port}`,
    port,
    get pid() {
      return server.pid
    },
    async kill(signal) {
      if (signal === 'SIGKILL' || signal === 'SIGTERM') return await end(signal)
      server.kill(signal)
      // A signal arrives when it arrives: a server that is only about to freeze still answers.
      if (signal === 'SIGSTOP') await waitFor(() => isFrozen(server.pid), { what: 'nats-server to freeze' })
    },
    async restart() {
      await end('SIGKILL')
      server = await start()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

const isFrozen = (pid: number): boolean => /\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))

/** The server speaks first. */
async function greets(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host)
  const isGreeted = await new Promise<boolean>((resolve) => {
    socket.once('data', () => resolve(true))
    socket.once('error', () => resolve(false))
  })
  socket.destroy()
  return isGreeted
}
