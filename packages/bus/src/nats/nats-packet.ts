// Between packets and NATS messages. Nothing here throws on what comes from outside: the client's
// reader would stop, and with it the connection.
import { isUtf8 } from 'node:buffer'
import { headers } from '@nats-io/transport-node'
import type { Msg, PublishOptions } from '@nats-io/transport-node'
import type { OutgoingPacket, Packet } from '../wire.ts'

const failureHeader = 'muster-failure'

export function toPacket(message: Msg): Packet {
  const { data, reply } = message
  return { subject: message.subject, text: textOf(data), reply: reply === undefined || reply === '' ? null : reply, kind: kindOf(message) }
}

export function publishOptions({ reply, kind }: OutgoingPacket): PublishOptions {
  const options: PublishOptions = reply === null ? {} : { reply }
  if (kind !== 'failure') return options
  const marked = headers()
  marked.set(failureHeader, '1')
  return { ...options, headers: marked }
}

function textOf(data: Uint8Array): string | null {
  return isUtf8(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString() : null
}

function kindOf(message: Msg): Packet['kind'] {
  try {
    const { headers: found } = message
    if (found === undefined) return 'message'
    if (found.code === 503 && message.data.length === 0) return 'no_responders'
    return found.has(failureHeader) ? 'failure' : 'message'
  } catch {
    return 'message'
  }
}
