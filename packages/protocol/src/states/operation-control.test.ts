import { describe, expect, it } from 'vitest'
import { OperationKind } from '../http/operations.ts'
import { canBePaused, type ControlFacts, type ControlVerdict, decideControl, type OperationControl } from './operation-control.ts'

const open: ControlFacts = { kind: 'backend.install', isFinished: false, isCancelling: false, isPaused: false, isDismissed: false }
const [paused, cancelling, finished] = [
  { ...open, isPaused: true },
  { ...open, isCancelling: true },
  { ...open, isFinished: true },
]

describe('an operation that is', () => {
  it.each<[string, ControlFacts, Readonly<Record<OperationControl, ControlVerdict>>]>([
    ['active', open, { pause: 'do', resume: 'done', dismiss: 'not_finished' }],
    ['paused', paused, { pause: 'done', resume: 'do', dismiss: 'not_finished' }],
    ['being cancelled', cancelling, { pause: 'cancelling', resume: 'done', dismiss: 'not_finished' }],
    ['finished', finished, { pause: 'already_finished', resume: 'already_finished', dismiss: 'do' }],
    ['dismissed', { ...finished, isDismissed: true }, { pause: 'already_finished', resume: 'already_finished', dismiss: 'done' }],
    ['a load', { ...open, kind: 'model.load' }, { pause: 'cannot_pause', resume: 'done', dismiss: 'not_finished' }],
    ['a finished load', { ...finished, kind: 'model.load' }, { pause: 'already_finished', resume: 'already_finished', dismiss: 'do' }],
  ])('%s', (_, facts, want) => {
    const controls = ['pause', 'resume', 'dismiss'] as const
    expect(Object.fromEntries(controls.map((control) => [control, decideControl(control, facts)]))).toEqual(want)
  })
})

it('installs of models, and everything about backends, can be paused', () => {
  expect(OperationKind.options.filter(canBePaused)).toEqual(['backend.install', 'backend.upgrade', 'backend.delete', 'model.install'])
})
