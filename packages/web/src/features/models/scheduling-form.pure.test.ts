import { Scheduling } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { formOf, readForm, type SchedulingForm } from './scheduling-form.pure.ts'

const empty: SchedulingForm = { spread: 'count', min: '', max: '', priority: '', policy: '', selector: [] }
const errors = (more: Partial<SchedulingForm>) => {
  const read = readForm({ ...empty, ...more })
  return read.isValid ? null : read.errors
}

it.each<Scheduling>([
  {},
  { min_replicas: 0, max_replicas: 0, priority: -5, policy: 'least' },
  { replicas: 'all' },
  { node_selector: { gpu: '*', 'gpu.vendor': ['nvidia', 'amd'], zone: '!', rack: '!7', one: ['only'] } },
  { node_selector: { odd: 'a,b', quoted: '"x"', list: ['a, b', 'c'], space: ' a' } },
])('a form says what it was made of: %j', (scheduling) => {
  expect(readForm(formOf(Scheduling.parse(scheduling)))).toEqual({ isValid: true, scheduling })
})

it('a row that nothing was typed into is not there', () => {
  expect(readForm({ ...empty, selector: [{ label: ' ', value: '' }] })).toEqual({ isValid: true, scheduling: {} })
})

describe('what is wrong stands beside its field', () => {
  it.each<[string, Partial<SchedulingForm>, object]>([
    ['words for a figure', { min: 'two' }, { min: 'a whole number' }],
    ['half a replica', { max: '1.5' }, { max: 'a whole number' }],
    ['too many', { max: '5000' }, { max: 'at most 1,024' }],
    ['too few', { min: '-1' }, { min: 'at least 0' }],
    ['more than the most', { min: '3', max: '2' }, { min: 'min_replicas is greater than max_replicas' }],
    ['a priority', { priority: 'high' }, { priority: 'a whole number' }],
    ['no label', { selector: [{ label: '', value: 'x' }] }, { selector: { 0: expect.any(String) as string } }],
    [
      'a label twice',
      {
        selector: [
          { label: 'a', value: '1' },
          { label: 'a', value: '2' },
        ],
      },
      { selector: { 1: expect.stringContaining('already') as string } },
    ],
  ])('%s', (_, more, expected) => expect(errors(more)).toMatchObject(expected))

  it('what does not count is not looked at', () => expect(errors({ spread: 'all', min: 'x' })).toBeNull())
})
