// The first visit of the web page.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'
import { visitWeb } from './web-world.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one'] })
})
afterAll(() => fleet[Symbol.asyncDispose]())

describe('the web page', () => {
  it('opens by the one-time link, is live, and violates none of its policies', async () => {
    await using visitor = await visitWeb(fleet)
    const { page, problems } = visitor
    await page.getByText('live', { exact: true }).waitFor()
    expect(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').count()).toBe(7)
    expect(problems()).toEqual([])
  })

  it('shows how to log in without a session', async () => {
    await using visitor = await visitWeb(fleet, { isLoggedIn: false })
    await visitor.page.getByRole('heading', { name: 'Log in' }).waitFor()
    await visitor.page.getByText('muster login-link').first().waitFor()
    expect(visitor.problems()).toEqual([])
  })
})
