// How a watched fleet looks: as lines, and as a table that is kept up to date.
import { describe, expect, it } from 'vitest'
import { nodeView } from '../../test/scripted-controller.ts'
import { createPrinter } from '../output/terminal.ts'
import { createNodeLines, createNodeScreen, type FleetView } from './watch-nodes.ts'

const start = Date.parse('2030-01-01T00:00:00Z')
const at = (seconds: number): string => new Date(start + seconds * 1000).toISOString()
const seen = (some: Parameters<typeof nodeView>[0] = {}) => {
  const node = nodeView({ last_seen_at: at(0), ...some })
  return { node, raw: node }
}

/** A clock that is set, and what is written. */
function world(create: (deps: { clock: { now: () => number }; written: string[] }) => FleetView) {
  const written: string[] = []
  let now = start
  return { view: create({ clock: { now: () => now }, written }), written, pass: (seconds: number) => (now += seconds * 1000) }
}

describe('lines', () => {
  const lines = (status?: string) =>
    world(({ clock, written }) => {
      const terminal = {
        out: (text: string) => void written.push(text),
        err: () => undefined,
        width: null,
        screen: null,
        colors: { out: false, err: false },
      }
      return createNodeLines({ print: createPrinter(terminal, 'text'), clock, status })
    })

  it('show the age of the last heartbeat when the line is written, not when the watch began', () => {
    const { view, written, pass } = lines()
    view.replace([seen()])
    expect(written.at(-1)).toMatch(/ 0s$/)
    pass(42)
    view.put(seen({ status: 'unhealthy' }))
    expect(written.at(-1)).toMatch(/unhealthy .* 42s$/)
  })

  it('are not added for changed figures only', () => {
    const { view, written, pass } = lines()
    view.replace([seen()])
    const before = written.length
    pass(5)
    view.put(seen({ last_seen_at: at(5) }))
    view.tick()
    expect(written).toHaveLength(before)
  })
})

describe('the table on a terminal', () => {
  const table = (status?: string) => {
    let drawn: readonly string[] = []
    const all = world(({ clock }) =>
      createNodeScreen({ screen: { width: () => 100, height: () => 23, draw: (lines) => void (drawn = lines) }, clock, status }),
    )
    return { ...all, drawn: () => drawn }
  }

  it('lets ages grow, and begins anew with a sign of life', () => {
    const { view, drawn, pass } = table()
    view.replace([seen()])
    pass(3)
    view.tick()
    expect(drawn()[1]).toMatch(/ 3s$/)
    pass(2)
    view.put(seen({ last_seen_at: at(4) }))
    expect(drawn()[1]).toMatch(/ 1s$/)
  })

  it('shows each node once, sorted by name, in its current state', () => {
    const { view, drawn } = table()
    view.replace([seen({ id: 'node-b', name: 'b' })])
    view.put(seen({ id: 'node-a', name: 'a', status: 'pending' }))
    view.put(seen({ id: 'node-b', name: 'b', status: 'draining' }))
    expect(drawn().map((line) => line.split(/ +/).slice(0, 3).join(' '))).toEqual([
      'NAME ID STATUS',
      'a node-a pending',
      'b node-b draining',
    ])
    view.remove('node-a', {})
    expect(drawn()).toHaveLength(2)
  })

  it('shows only the requested status, and a node again when it returns to it', () => {
    const { view, drawn } = table('healthy')
    view.replace([seen()])
    view.put(seen({ status: 'unhealthy' }))
    expect(drawn()).toHaveLength(1)
    view.put(seen())
    expect(drawn()).toHaveLength(2)
  })

  it('shows below that the connection is lost, until everything was read again', () => {
    const { view, drawn } = table()
    view.replace([seen()])
    view.connectionLost('closed')
    expect(drawn().at(-1)).toBe('connection lost (closed); retrying')
    view.replace([seen()])
    expect(drawn()).toHaveLength(2)
  })

  it('is not drawn before anything is known', () => {
    const { view, drawn } = table()
    view.tick()
    expect(drawn()).toEqual([])
  })
})
