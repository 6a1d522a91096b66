// One connection of the doctor: says something, waits for the first answer, hangs up. Nothing throws.
import { createConnection, type NetConnectOpts } from 'node:net'

export type SocketFinding =
  | { readonly answered: true; readonly data: Buffer }
  /** Connected, and then silence or an end. */
  | { readonly answered: false; readonly connected: boolean; readonly reason: string }

export interface SocketProbe {
  readonly to: NetConnectOpts
  readonly send: Buffer | null
  /** Enough was heard. */
  readonly isWhole: (data: Buffer) => boolean
  readonly signal: AbortSignal
}

export function probeSocket({ to, send, isWhole, signal }: SocketProbe): Promise<SocketFinding> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(4000)])
  return new Promise((resolve) => {
    const socket = createConnection(to)
    let data = Buffer.alloc(0)
    let connected = false
    const end = (finding: SocketFinding): void => {
      socket.destroy()
      resolve(finding)
    }
    limit.addEventListener(
      'abort',
      () => end({ answered: false, connected, reason: connected ? 'no answer within 4 s' : 'no connection within 4 s' }),
      { once: true },
    )
    socket.on('connect', () => {
      connected = true
      if (send !== null) socket.write(send)
    })
    socket.on('data', (chunk) => {
      data = Buffer.concat([data, chunk])
      if (isWhole(data) || data.length > 65_536) end({ answered: true, data })
    })
    socket.on('error', (error: NodeJS.ErrnoException) => end({ answered: false, connected, reason: error.code ?? error.message }))
    socket.on('close', () => end({ answered: false, connected, reason: 'the connection was closed' }))
  })
}
