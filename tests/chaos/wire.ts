// A line to a server that can be cut, for everybody or for one caller: nothing gets through and no side is notified, or every
// connection breaks at once. Partitions without packet filters, so that no privileges are needed.
import { connect, createServer, type Socket } from 'node:net'

/**
 * `dark`: bytes wait in the line, and connections stay open. `broken`: connections end, and new ones too. `lossy`: one piece in
 * ten is lost, and everything behind it waits until it was sent again, as over TCP.
 */
export type Cut = 'dark' | 'broken' | 'lossy'

export interface Wire extends AsyncDisposable {
  readonly port: number
  /** `caller` null: everybody. */
  cut(how: Cut, caller: string | null): void
  mend(caller: string | null): void
}

export interface WireOptions {
  readonly target: Readonly<{ host: string; port: number }>
  /** Reads the caller from bytes that it sent; null: these bytes do not name it. */
  readonly readCaller?: (sent: string) => string | null
}

type Parcel = Readonly<{ to: Socket; bytes: Buffer | null }>
interface Line {
  readonly ends: readonly [Socket, Socket]
  caller: string | null
  readonly held: Parcel[]
  isResending: boolean
}

const lossRate = 0.1
/** The shortest time after which TCP sends again. */
const resendMs = 200

const everybody = ''
/** The caller is named in the first bytes of a request or a connection. */
const readBytes = 2_048

export async function startWire({ target, readCaller = () => null }: WireOptions): Promise<Wire> {
  const cuts = new Map<string, Cut>()
  const lines = new Set<Line>()
  const cutOf = ({ caller }: Line): Cut | null => cuts.get(everybody) ?? (caller === null ? null : (cuts.get(caller) ?? null))
  const breakLine = (line: Line): void => {
    for (const end of line.ends) end.destroy()
    lines.delete(line)
  }
  const flush = (line: Line): void => {
    const cut = cutOf(line)
    if (cut === 'broken') return breakLine(line)
    if (cut === 'dark' || line.isResending) return
    if (cut === 'lossy' && Math.random() < lossRate) {
      line.isResending = true
      setTimeout(() => {
        line.isResending = false
        flush(line)
      }, resendMs)
      return
    }
    for (const { to, bytes } of line.held.splice(0)) {
      if (bytes === null) to.end()
      else if (!to.destroyed) to.write(bytes)
    }
  }
  const carry = (line: Line, [from, to]: readonly [Socket, Socket]): void => {
    from.on('data', (bytes: Buffer) => {
      if (from === line.ends[0]) line.caller = readCaller(bytes.subarray(0, readBytes).toString('latin1')) ?? line.caller
      line.held.push({ to, bytes })
      flush(line)
    })
    const end = (): void => {
      line.held.push({ to, bytes: null })
      flush(line)
    }
    from.on('end', end).on('error', end)
    from.on('close', () => line.ends.every((each) => each.destroyed) && lines.delete(line))
  }
  const server = createServer({ allowHalfOpen: false }, (client) => {
    const upstream = connect(target)
    const line: Line = { ends: [client.setNoDelay(), upstream.setNoDelay()], caller: null, held: [], isResending: false }
    lines.add(line)
    carry(line, [client, upstream])
    carry(line, [upstream, client])
    flush(line)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return {
    port: address.port,
    cut(how, caller) {
      cuts.set(caller ?? everybody, how)
      for (const line of lines) flush(line)
    },
    mend(caller) {
      cuts.delete(caller ?? everybody)
      for (const line of lines) flush(line)
    },
    async [Symbol.asyncDispose]() {
      for (const line of lines) breakLine(line)
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Workers name themselves when they connect to NATS. */
export const natsCaller = (sent: string): string | null => /"name":"muster worker ([^"]+)"/.exec(sent)?.[1] ?? null
/** Workers name themselves in the path of a request. */
export const nodeCaller = (sent: string): string | null => /^[A-Z]+ \/api\/node\/([^/ ]+)\//.exec(sent)?.[1] ?? null
