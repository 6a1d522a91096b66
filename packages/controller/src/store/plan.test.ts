import { expect, it } from 'vitest'
import { nothingToFetch, Plan } from './intent-rows.ts'

it('a deletion is a valid stored plan', () => {
  expect(Plan.parse(JSON.parse(JSON.stringify(nothingToFetch)))).toEqual(nothingToFetch)
})
