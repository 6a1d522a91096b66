import { systemClock } from '@muster/host'
import { OperationId, type OpStatusReply } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { createWorkRegistry, type RegisteredWork } from './work-registry.ts'

const op = OperationId.parse('op-1')
const work = (state: OpStatusReply['state'], cancel: () => Promise<unknown> = async () => undefined): RegisteredWork => ({
  status: (opId) => ({ op_id: opId, state }),
  cancel,
})

it('reports unknown for an ID that no work registered, and cancels nothing', async () => {
  const registry = createWorkRegistry({ clock: systemClock })
  expect(registry.status(op)).toEqual({ op_id: op, state: 'unknown' })
  expect(await registry.cancel(op)).toEqual({ op_id: op, state: 'unknown' })
})

it('finds the work that registered last, and a late release of the earlier one removes nothing', () => {
  const registry = createWorkRegistry({ clock: systemClock })
  const [earlier, later] = [work('failed'), work('running')]
  registry.register(op, earlier)
  registry.register(op, later)
  registry.release(op, earlier)
  expect(registry.status(op)).toMatchObject({ state: 'running' })
  registry.release(op, later)
  expect(registry.status(op)).toMatchObject({ state: 'unknown' })
})

it('a cancel waits for the end of the work, but at most a second', async () => {
  const clock = createManualClock()
  const registry = createWorkRegistry({ clock })
  registry.register(
    op,
    work('running', () => new Promise(() => undefined)),
  )
  const cancelled = registry.cancel(op)
  await clock.advance(1_000)
  expect(await cancelled).toMatchObject({ state: 'running' })
})
