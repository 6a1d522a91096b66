import { expect, it } from 'vitest'
import { Failure } from './failure.ts'
import { CommandReply } from './messages/backend.ts'
import { Progress } from './messages/node.ts'

const [bad, kept] = ['a\0b\ud800c', 'a\ufffdb\ufffdc']

it('C15 characters that PostgreSQL cannot store are replaced, so that one text fails no statement about many rows', () => {
  expect(Failure.parse({ code: 'internal', retry: 'never', message: bad }).message).toBe(kept)
  expect(CommandReply.parse({ success: false, error: bad })).toMatchObject({ error: kept })
  expect(Progress.parse({ op_id: 'op-1', node_id: 'n-1', backend: 'llama', file_name: bad, percentage: 1 }).file_name).toBe(kept)
})
