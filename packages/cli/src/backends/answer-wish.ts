// What a command does with the answer to a wish: shows what would be done, or follows what was started.
import type { OperationId, OperationView } from '@muster/protocol'
import type { ClientCall } from '../commands/client-command.ts'
import type { FollowMode } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import { renderOperation } from '../operations/operation-table.ts'

export interface SubmissionResponse {
  readonly raw: unknown
  readonly body: { readonly operation_id: OperationId } | OperationView
}

export async function followSubmission(call: ClientCall, mode: FollowMode, { raw, body }: SubmissionResponse): Promise<void> {
  if ('operation_id' in body) return followStarted(call, mode, { raw, ids: [body.operation_id] })
  const { print, shell } = call
  print.result(raw, () => renderOperation(body, { now: shell.clock.now(), width: print.width }))
  print.remark('this is what would be done; nothing was started')
}
