import { expect, it } from 'vitest'
import { nothingToFetch, Plan } from './plan.ts'

it('a deletion is a valid stored plan', () => {
  expect(Plan.parse(JSON.parse(JSON.stringify(nothingToFetch)))).toEqual(nothingToFetch)
})
