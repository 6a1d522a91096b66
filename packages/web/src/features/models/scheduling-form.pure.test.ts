import { Scheduling } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { formOf, readForm, type SchedulingForm } from './scheduling-form.pure.ts'

const empty: SchedulingForm = { isDisabled: false, spread: 'count', min: '', max: '', priority: '', policy: '', selector: [] }
const errors = (more: Partial<SchedulingForm>) => {
  const read = readForm({ ...empty, ...more })
  return read.isValid ? null : read.errors
}

it.each<Scheduling>([
  {},
  { min_replicas: 0, max_replicas: 0, priority: -5, policy: 'least' },
  { replicas: 'all' },
  { min_replicas: 1, disabled: true },
  { node_selector: { gpu: '*', 'gpu.vendor': ['nvidia', 'amd'], zone: '!', rack: '!7', one: ['only'] } },
  { node_selector: { odd: 'a,b', quoted: '"x"', list: ['a, b', 'c'], space: ' a' } },
])('converts to a form and back: %j', (scheduling) => {
  expect(readForm(formOf(Scheduling.parse(scheduling)))).toEqual({ isValid: true, scheduling })
})

it('ignores an empty row', () => {
  expect(readForm({ ...empty, selector: [{ label: ' ', value: '' }] })).toEqual({ isValid: true, scheduling: {} })
})

describe('an invalid field', () => {
  it.each<[string, Partial<SchedulingForm>, object]>([
    ['text for a number', { min: 'two' }, { min: 'Enter a whole number' }],
    ['a fraction', { max: '1.5' }, { max: 'Enter a whole number' }],
    ['too many', { max: '5000' }, { max: 'Must be at most 1,024' }],
    ['too few', { min: '-1' }, { min: 'Must be at least 0' }],
    ['a minimum above the maximum', { min: '3', max: '2' }, { min: 'min_replicas is greater than max_replicas' }],
    ['a priority', { priority: 'high' }, { priority: 'Enter a whole number' }],
    ['a value without label', { selector: [{ label: '', value: 'x' }] }, { selector: { 0: expect.any(String) as string } }],
    [
      'a label twice',
      {
        selector: [
          { label: 'a', value: '1' },
          { label: 'a', value: '2' },
        ],
      },
      { selector: { 1: expect.stringContaining('Duplicate') as string } },
    ],
  ])('%s', (_, more, expected) => expect(errors(more)).toMatchObject(expected))

  it('is ignored where it does not apply', () => expect(errors({ spread: 'all', min: 'x' })).toBeNull())
})
