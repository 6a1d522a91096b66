import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createInFlight } from './in-flight.ts'
import { createLoadEstimate } from './load-estimate.ts'

const [r0, r1, r2] = ['r0', 'r1', 'r2'].map((replicaId) => ({ replicaId })) as [Placed, Placed, Placed]
type Placed = { readonly replicaId: string }

function world() {
  let now = 0
  const own = createInFlight()
  const load = createLoadEstimate({ inFlight: own, clock: { monotonic: () => now } })
  const known = (...replicas: Placed[]): number[] => replicas.map(load.among(replicas))
  return { own, load, known, pass: (ms: number) => void (now += ms) }
}

describe('requests of other controllers', () => {
  it('are the count of the worker minus the own requests', () => {
    const { own, load, known } = world()
    own.open('r0')
    expect(known(r0)).toEqual([1])
    load.report('r0', 4)
    expect(known(r0)).toEqual([4])
    const more = own.open('r0')
    expect(known(r0)).toEqual([5])
    more[Symbol.dispose]()
  })

  it('count fully at the first report, and then gradually', () => {
    const { load, known, pass } = world()
    load.report('r0', 10)
    load.report('r0', 0)
    expect(known(r0)).toEqual([8])
    for (let i = 0; i < 30; i += 1) load.report('r0', 0)
    expect(known(r0)).toEqual([0])
    load.report('r0', 10)
    expect(known(r0)).toEqual([2])
    pass(6_000)
    load.report('r0', 10)
    expect(known(r0)).toEqual([10])
  })

  it('fade to the average, so that a once busy replica is not avoided, and are then forgotten', () => {
    const { load, known, pass } = world()
    load.report('r0', 8)
    load.report('r1', 0)
    expect(known(r0, r1, r2)).toEqual([8, 0, 4])
    pass(3_000)
    expect(known(r0, r1, r2)).toEqual([6, 2, 4])
    pass(2_999)
    expect(known(r0, r1, r2).map(Math.round)).toEqual([4, 4, 4])
    pass(1)
    expect(known(r0, r1, r2)).toEqual([0, 0, 0])
  })

  it('I16 never lower the estimate below the own requests, and fade without reports', () => {
    const step = fc.oneof(
      fc.record({ is: fc.constant('open'), which: fc.nat(2) }),
      fc.record({ is: fc.constant('end'), which: fc.nat(20) }),
      fc.record({ is: fc.constant('told'), which: fc.nat(2), count: fc.integer({ min: 0, max: 50 }) }),
      fc.record({ is: fc.constant('pass'), which: fc.nat(3_000) }),
    )
    const ids = ['r0', 'r1', 'r2']
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const { own, load, known, pass } = world()
        const leases: Disposable[] = []
        for (const { is, which, ...more } of steps) {
          const id = `r${which}`
          if (is === 'open') leases.push(own.open(id))
          if (is === 'end') leases[which]?.[Symbol.dispose]()
          if (is === 'pass') pass(which)
          if ('count' in more) load.report(id, more.count)
          const seen = known(r0, r1, r2)
          for (const [i, each] of ids.entries()) expect(seen[i]).toBeGreaterThanOrEqual(own.of(each))
        }
        pass(6_000)
        expect(known(r0, r1, r2)).toEqual(ids.map((each) => own.of(each)))
        for (const lease of leases) lease[Symbol.dispose]()
        expect(known(r0, r1, r2)).toEqual([0, 0, 0])
      }),
    )
  })
})
