import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createInFlight } from './in-flight.ts'

it('I16 W29 counts open requests, however often a lease is disposed, and never below zero', () => {
  const step = fc.record({ replica: fc.constantFrom('a', 'b', 'c'), open: fc.boolean(), which: fc.nat() })
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const counts = createInFlight()
      const leases: { replica: string; lease: Disposable; isOpen: boolean }[] = []
      for (const { replica, open, which } of steps) {
        if (open) leases.push({ replica, lease: counts.open(replica), isOpen: true })
        else {
          const one = leases[which % Math.max(leases.length, 1)]
          one?.lease[Symbol.dispose]()
          if (one !== undefined) one.isOpen = false
        }
        for (const each of ['a', 'b', 'c']) {
          expect(counts.of(each)).toBe(leases.filter((lease) => lease.isOpen && lease.replica === each).length)
        }
        expect(counts.total()).toBe(leases.filter((lease) => lease.isOpen).length)
      }
    }),
  )
})
