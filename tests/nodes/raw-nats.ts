// A client of NATS that sends bytes as they are: nobody looks at them before they are on the wire.
import { once } from 'node:events'
import { connect } from 'node:net'
import { waitFor } from '@muster/testkit'

export interface RawNats extends AsyncDisposable {
  /** The payload of the answer; null when nobody serves the subject. */
  request(subject: string, payload: string | Uint8Array): Promise<Buffer | null>
  /** Sends and does not wait. */
  publish(subject: string, payload: string | Uint8Array): void
  isClosed(): boolean
}

export async function connectRawNats(port: number): Promise<RawNats> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const answers = new Map<string, Buffer | null>()
  let received = Buffer.alloc(0)
  let sent = 0
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    for (;;) {
      const end = received.indexOf('\r\n')
      if (end < 0) return
      const [verb = '', ...words] = received.subarray(0, end).toString().split(' ')
      if (verb === 'PING') socket.write('PONG\r\n')
      const length = verb === 'MSG' || verb === 'HMSG' ? Number(words.at(-1)) + 2 : 0
      if (received.length < end + 2 + length) return
      // With headers and nothing else: no responders. Otherwise the headers are left out.
      const headers = verb === 'HMSG' ? Number(words.at(-2)) : 0
      if (length > 0) answers.set(words[0] ?? '', payloadOf(received.subarray(end + 2 + headers, end + length)))
      received = received.subarray(end + 2 + length)
    }
  })
  const publish = (subject: string, payload: string | Uint8Array, reply = ''): void => {
    const bytes = Buffer.from(typeof payload === 'string' ? Buffer.from(payload) : payload)
    socket.write(Buffer.concat([Buffer.from(`PUB ${subject} ${reply} ${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]))
  }
  socket.write('CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\nSUB _INBOX_raw.* 1\r\n')
  return {
    isClosed: () => socket.destroyed,
    publish: (subject, payload) => publish(subject, payload),
    async request(subject, payload) {
      const inbox = `_INBOX_raw.${++sent}`
      publish(subject, payload, inbox)
      await waitFor(() => answers.has(inbox), { what: `an answer of ${subject}` })
      return answers.get(inbox) ?? null
    },
    [Symbol.asyncDispose]: async () => void socket.destroy(),
  }
}

const payloadOf = (bytes: Buffer): Buffer | null => (bytes.length === 0 ? null : Buffer.from(bytes))
