// Whoever opens the page for the first time.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet/fleet-world.ts'
import { visitWeb } from './web-world.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one'] })
})
afterAll(() => fleet[Symbol.asyncDispose]())

describe('the web page', () => {
  it('opens by the one-time link, is live, and breaks no rule of its own', async () => {
    await using visitor = await visitWeb(fleet)
    const { page, problems } = visitor
    await page.getByText('live', { exact: true }).waitFor()
    expect(await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').count()).toBe(7)
    expect(problems()).toEqual([])
  })

  it('tells whoever is not logged in what to do', async () => {
    await using visitor = await visitWeb(fleet, { isLoggedIn: false })
    await visitor.page.getByRole('heading', { name: 'Log in' }).waitFor()
    await visitor.page.getByText('muster login-link').first().waitFor()
    expect(visitor.problems()).toEqual([])
  })
})
