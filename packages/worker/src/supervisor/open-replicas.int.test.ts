import { describe, expect, it } from 'vitest'
import { waitFor } from '@muster/testkit'
import { loadOf, replicaId, startReplicas } from '../../test/replicas-world.ts'

describe('the replicas of a worker', () => {
  it('starts one process for a load, and says when it is ready', async () => {
    await using world = await startReplicas()
    await world.serve('r-1', {}, { slot: 0 })
    expect(await world.pids('r-1')).toHaveLength(1)
    expect(world.replicas.running()).toMatchObject([{ replicaId: 'r-1', state: 'ready', inFlight: 0 }])
    expect(world.events.find(({ type }) => type === 'replica.ready')).toMatchObject({ op_id: 'op-r-1', model: 'm', revision: 'rev-1' })
    await world.replicas.unload(replicaId('r-1'), { force: false })
    expect(await world.exited('r-1')).toMatchObject({ expected: true, exit_code: 0 })
    expect(await world.pids('r-1')).toEqual([])
  })

  it('F1 says why a process ended before it was ready, with its last words', async () => {
    await using world = await startReplicas()
    await world.replicas.load(loadOf('r-1', { crash_at_start: 'no such tensor', exit_code: 3 }))
    expect(await world.result('op-r-1')).toMatchObject({
      state: 'failed',
      failure: { code: 'unavailable', retry: 'backoff', message: expect.stringMatching(/exit code 3[^]*no such tensor/) },
    })
    await waitFor(() => world.replicas.running().length === 0, { what: 'the slot to be free' })
  })
})
