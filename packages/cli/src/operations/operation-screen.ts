// Operations on a terminal: a line for each and one for each of its nodes, drawn again in their place.
import type { Clock } from '@muster/host'
import type { OperationView } from '@muster/protocol'
import type { Paint } from '../output/paint.ts'
import { plainText } from '../output/plain-text.ts'
import type { Screen } from '../output/screen.ts'
import { isWorking } from './describe-operation.ts'
import { nodeKey, progressRows } from './progress-rows.ts'
import type { ProgressView } from './progress-view.ts'
import { createRateMeter } from './rate.ts'

export interface OperationScreenDeps {
  readonly screen: Screen
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  readonly paint: Paint
}

export function createOperationScreen({ screen, clock, paint }: OperationScreenDeps): ProgressView {
  const operations = new Map<string, OperationView>()
  const meter = createRateMeter()
  let rates = new Map<string, number | null>()
  let notice: string | null = null
  let drawn = ''

  function measure(): void {
    const at = clock.monotonic()
    rates = new Map()
    for (const operation of operations.values()) {
      rates.set(operation.id, meter.measure(operation.id, operation.current_bytes, at))
      for (const node of operation.nodes.filter(isWorking)) {
        const key = nodeKey(operation, node)
        rates.set(key, meter.measure(key, node.current, at))
      }
    }
  }

  function draw(): void {
    if (operations.size === 0) return
    measure()
    const room = screen.height() - (notice === null ? 0 : 1)
    const rateOf = (key: string): number | null => rates.get(key) ?? null
    const rows = progressRows({ operations: [...operations.values()], width: screen.width(), room, now: clock.now(), paint, rateOf })
    const lines = notice === null ? rows : [...rows, paint('yellow', notice)]
    // What looks the same is not written again: over a slow line it would flicker.
    const frame = [screen.width(), screen.height(), ...lines].join('\n')
    if (frame !== drawn) screen.draw(lines)
    drawn = frame
  }

  return {
    // Drawn with the next tick: a busy fleet changes more often than eyes can follow.
    put: ({ operation }) => {
      const isNew = !operations.has(operation.id)
      operations.set(operation.id, operation)
      if (isNew) draw()
    },
    connectionLost: (reason) => void (notice = `connection lost (${plainText(reason)}); trying again`),
    connectionRestored: () => void (notice = null),
    tick: draw,
    end: () => {
      notice = null
      draw()
    },
  }
}
