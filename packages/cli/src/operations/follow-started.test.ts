import { OperationState } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { exitCodeOfStates, isOver } from './follow-started.ts'

describe('isOver', () => {
  it.each([
    ['running', false, false],
    ['background', true, false],
    ['succeeded', true, true],
    ['failed', true, true],
    ['cancelled', true, true],
  ] as const)('%s: followed long enough %s, with --wait %s', (state, background, settled) => {
    expect(isOver({ state }, 'background')).toBe(background)
    expect(isOver({ state }, 'settled')).toBe(settled)
  })
})

describe('exitCodeOfStates', () => {
  it.each([
    [['succeeded'], 0],
    [['failed'], 1],
    [['cancelled'], 1],
    [['background'], 3],
    [['running'], 3],
    [[null], 3],
    [[], 0],
    [['succeeded', 'background'], 3],
    [['succeeded', 'background', 'failed'], 1],
    [['cancelled', 'running'], 1],
  ] as const)('%j ends with %d', (states, code) => expect(exitCodeOfStates(states)).toBe(code))

  it('knows every state', () => expect(OperationState.options.map((state) => exitCodeOfStates([state]))).toEqual([3, 3, 0, 1, 1]))
})
