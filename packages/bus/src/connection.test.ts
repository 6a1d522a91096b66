import { backendList, NodeId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { BusError } from './bus.ts'
import { BusConnection } from './connection.ts'
import { recordingLog } from '../test/contract-suite.ts'
import { realTimer } from './timer.ts'
import type { Wire } from './wire.ts'

function requestOver(send: Wire['send']) {
  const log = recordingLog()
  const wire: Wire = {
    inbox: '_INBOX.1',
    send,
    listen: () => ({ stop: () => undefined, drain: async () => undefined }),
    ping: async () => undefined,
    close: async () => undefined,
  }
  const bus = new BusConnection({ kind: 'local', log, startTimer: realTimer, open: () => wire })
  return { log, failing: bus.request(backendList, { node: NodeId.parse('n-1') }, {}, { timeoutMs: 5_000 }) }
}

it('a bug of the wire is logged with its stack, and not taken for an error of the message', async () => {
  const bug = new TypeError('undefined is not a function')
  const { log, failing } = requestOver(() => {
    throw bug
  })
  await expect(failing).rejects.toBe(bug)
  expect(log.lines).toMatchObject([{ level: 'error', fields: { error: bug } }])
})

it('the caller gets the refusal of a wire, without a log line', async () => {
  const refusal = new BusError('too_large', 'larger than this server takes')
  const { log, failing } = requestOver(() => {
    throw refusal
  })
  await expect(failing).rejects.toBe(refusal)
  expect(log.lines).toEqual([])
})
