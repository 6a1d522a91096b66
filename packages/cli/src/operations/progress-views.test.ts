// How operations look while they are followed: on a terminal, and as lines.
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { operationNode, operationView } from '../../test/scripted-controller.ts'
import { createPaint } from '../output/segments.ts'
import { createPrinter } from '../output/terminal.ts'
import { createOperationLines, createOperationScreen } from './progress-views.ts'
import { progressRows } from './progress-rows.ts'

const now = Date.parse('2030-01-01T00:01:00Z')
const plain = createPaint(false)
type Operation = ReturnType<typeof operationView>
const rows = (operations: Operation[], some: { width?: number; room?: number; rate?: number | null } = {}): string[] => {
  const { width = 120, room = 23, rate = null } = some
  return progressRows({ operations, width, room, now, paint: plain, rateOf: () => rate })
}
const oneNode = (some: Parameters<typeof operationNode>[0]): string =>
  rows([operationView({ nodes: [operationNode({ node_name: 'n', ...some })] })], { rate: 85e6 })[1] ?? ''

describe('a node on a terminal', () => {
  it.each([
    ['works', {}, /^ {2}n {2}downloading {2}downloading {2}━+╸?─+ +1 GB of 4 GB +85 MB\/s +25 %$/],
    [
      'works on, in its background',
      { status: 'running_on_worker', message: 'worker still installing in background' },
      /25 % {2}worker still installin…$/,
    ],
    ['unpacks', { phase: 'extracting', percentage: 100, current: 4e9 }, /extracting {3}━+ +4 GB of 4 GB +85 MB\/s +100 %$/],
    ['knows no size', { current: 0, total: 0, percentage: 0, phase: 'resolving' }, /resolving +─+ +85 MB\/s +0 %$/],
    [
      'is away',
      { status: 'queued', phase: null, message: 'node offline, will retry when healthy' },
      /^ {2}n {2}queued {2}node offline, will retry when healthy$/,
    ],
    ['is done', { status: 'success', phase: null, message: 'already up to date' }, /^ {2}n {2}success {2}already up to date$/],
    [
      'failed, and is tried again',
      { status: 'error', error: 'no space left', error_code: 'disk_full', attempts: 2, next_retry_at: '2030-01-01T00:01:30Z' },
      /^ {2}n {2}error {2}no space left \(disk_full\); 2 attempts, next in 30s$/,
    ],
    ['is due', { status: 'error', error: 'no answer', attempts: 1, next_retry_at: '2030-01-01T00:00:00Z' }, /; 1 attempt, next now$/],
    [
      'failed for good',
      { status: 'error', error: 'wrong digest', error_code: 'integrity', attempts: 1 },
      /^ {2}n {2}error {2}wrong digest \(integrity\)$/,
    ],
    ['is given up', { status: 'error', error: 'no answer', attempts: 10, dead: true }, /; given up after 10 attempts$/],
    [
      'is left out',
      { status: 'skipped', phase: null, message: 'nothing for darwin/arm64' },
      /^ {2}n {2}skipped {2}nothing for darwin\/arm64$/,
    ],
  ] as const)('%s', (_, some, want) => expect(oneNode(some)).toMatch(want))

  it('SEC29 can write nothing but its own line', () => {
    const line = oneNode({ node_name: 'a\u001b[2Jb\nc', status: 'error', error: '\u001b]0;x\u0007boo\nm' })
    expect(line).toMatch(/^ {2}ab c {2}error {2}boo m$/)
  })
})

describe('operations on a terminal', () => {
  const many = (count: number, some: (at: number) => Parameters<typeof operationNode>[0]) =>
    Array.from({ length: count }, (_, at) =>
      operationNode({ node_id: `n${at}`, node_name: `n${String(at).padStart(2, '0')}`, ...some(at) }),
    )

  it('begin with the whole of it', () => {
    expect(rows([operationView({ message: '2 of 5 nodes done', progress: 41.2 })], { rate: 12e6 })[0]).toMatch(
      /^install llama {2}running: 2 of 5 nodes done {2}━+╸?─+ +1 GB of 4 GB +12 MB\/s +41 %$/,
    )
    expect(rows([operationView({ state: 'succeeded', message: '5 of 5 nodes done' })])[0]).toBe(
      'install llama  succeeded: 5 of 5 nodes done',
    )
    expect(rows([operationView({ kind: 'model.load', backend: null, model: 'tiny', nodes: [], message: '' })])).toHaveLength(1)
  })

  it.each([40, 60, 80, 100, 200])('never take more than %d cells', (width) => {
    const nodes = many(3, (at) => (at === 0 ? { status: 'error', error: 'x'.repeat(300) } : { node_name: '名前'.repeat(20) }))
    for (const line of rows([operationView({ nodes, message: 'y'.repeat(100) })], { width, rate: 999e6 }))
      expect(Array.from(line, (c) => (/[名前]/.test(c) ? 2 : 1)).reduce<number>((a, b) => a + b, 0)).toBeLessThanOrEqual(width)
  })

  it('show those in work and in error first when not all fit, in their order, and how many more there are', () => {
    const nodes = many(30, (at) =>
      at === 20
        ? { status: 'error', error: 'broken' }
        : at === 25
          ? {}
          : at < 10
            ? { status: 'success', phase: null }
            : { status: 'queued', phase: null },
    )
    const lines = rows([operationView({ nodes })], { room: 6 })
    expect(lines.slice(1).map((line) => line.trim().split(' ')[0])).toEqual(['n10', 'n11', 'n20', 'n25', '…'])
    expect(lines.at(-1)).toBe('  … and 26 more')
    expect(lines).toHaveLength(6)
    expect(rows([operationView({ nodes })], { room: 31 })).toHaveLength(31)
  })

  it('are colored only if that is wanted', () => {
    const draw = (isColored: boolean) =>
      progressRows({ operations: [operationView()], width: 100, room: 9, now, paint: createPaint(isColored), rateOf: () => null })
    expect(draw(false).join('')).not.toContain('\u001b')
    expect(draw(true).join('')).toContain('\u001b[32m━')
    expect(draw(true).map((line) => stripVTControlCharacters(line))).toEqual(draw(false))
  })

  it('are drawn again only when they look different, or the window has another size', () => {
    let drawings = 0
    let height = 10
    const screen = { width: () => 120, height: () => height, draw: () => void (drawings += 1) }
    const view = createOperationScreen({ screen, clock: { now: () => now, monotonic: () => 0 }, paint: plain })
    view.put({ operation: operationView(), raw: null })
    view.tick()
    view.tick()
    expect(drawings).toBe(1)
    height = 8
    view.tick()
    view.put({ operation: operationView({ progress: 30 }), raw: null })
    view.end()
    expect(drawings).toBe(3)
  })

  it('are drawn in one place, with the current rate, and show a lost connection', () => {
    let at = 0
    let drawn: readonly string[] = []
    const screen = { width: () => 120, height: () => 10, draw: (lines: readonly string[]) => void (drawn = lines) }
    const view = createOperationScreen({ screen, clock: { now: () => now, monotonic: () => at }, paint: plain })
    const put = (current: number) => view.put({ operation: operationView({ nodes: [operationNode({ current })] }), raw: null })
    put(0)
    expect(drawn).toHaveLength(2)
    at = 2000
    put(100e6)
    view.tick()
    expect(drawn[1]).toContain('50 MB/s')
    view.connectionLost('reset')
    view.tick()
    expect(drawn.at(-1)).toBe('connection lost (reset); retrying')
    view.connectionRestored()
    view.tick()
    expect(drawn).toHaveLength(2)
  })
})

describe('lines', () => {
  function lines() {
    const written: string[] = []
    const terminal = {
      out: (text: string) => void written.push(text),
      err: (text: string) => void written.push(`! ${text}`),
      width: null,
      screen: null,
      colors: { out: false, err: false },
    }
    const view = createOperationLines({ print: createPrinter(terminal, 'text'), clock: { now: () => now } })
    const put = (node: Parameters<typeof operationNode>[0], some: Parameters<typeof operationView>[0] = {}): string[] => {
      written.length = 0
      view.put({ operation: operationView({ nodes: [operationNode(node)], ...some }), raw: null })
      return [...written]
    }
    return { view, put, written }
  }

  it('print the current state, then each change of status and phase', () => {
    const { put } = lines()
    expect(put({ status: 'queued', phase: null, percentage: 0, current: 0, total: 0 })).toEqual([
      'install llama: gpu-1: queued',
      'install llama: running: 0 of 1 nodes done',
    ])
    expect(put({})).toEqual(['install llama: gpu-1: downloading, 25 % (1 GB of 4 GB)'])
    expect(put({ phase: 'extracting' })).toEqual(['install llama: gpu-1: downloading, extracting, 25 % (1 GB of 4 GB)'])
    expect(put({ status: 'error', phase: null, error: 'reset', attempts: 1, next_retry_at: '2030-01-01T00:01:30Z' })).toEqual([
      'install llama: gpu-1: error: reset; 1 attempt, next in 30s',
    ])
    expect(put({ status: 'success', phase: null }, { state: 'succeeded', message: '1 of 1 nodes done' })).toEqual([
      'install llama: gpu-1: success',
      'install llama: succeeded: 1 of 1 nodes done',
    ])
  })

  it('are at most one per ten percent in between', () => {
    const { put } = lines()
    put({ percentage: 0 })
    const counts = Array.from({ length: 1000 }, (_, at) => put({ percentage: at / 10, current: at }).length)
    expect(counts.reduce((sum, one) => sum + one, 0)).toBe(9)
  })

  it('are not added for an equivalent message about the whole operation', () => {
    const { put } = lines()
    put({})
    expect(put({}, { message: '1 of 2 nodes done', progress: 30 })).toEqual([])
  })

  it('print a loss once', () => {
    const { view, written } = lines()
    view.connectionLost('a')
    view.connectionLost('b')
    view.connectionRestored()
    view.connectionLost('c')
    expect(written).toEqual(['! connection lost (a); retrying', '! connection lost (c); retrying'])
  })
})
