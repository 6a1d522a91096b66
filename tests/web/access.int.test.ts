// Login, the settings page, and the frame of every page.
import { adminKey, createApiClient, joinToken, nodesOf, waitFor } from '@muster/testkit'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startFleet, untilHealthy, type Fleet } from '../fleet/fleet-world.ts'
import { visitWeb } from './web-world.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet({
    postgresUrl: inject('postgresUrl'),
    controllers: 2,
    workers: ['one'],
    args: ['--require-api-key', '--backend-install-timeout', '20m'],
  })
})
afterAll(() => fleet[Symbol.asyncDispose]())

const live = (page: Page) => page.getByRole('banner').getByText('live', { exact: true })

describe('logging in', () => {
  it('accepts an admin key after a wrong one, opens the requested page, and logs out', async () => {
    await using visitor = await visitWeb(fleet, { isLoggedIn: false, path: '/settings?tab=about' })
    const { page } = visitor
    await page.getByRole('heading', { name: 'Log in', exact: true }).waitFor()
    const field = page.getByLabel('Admin key')
    expect(await field.getAttribute('type')).toBe('password')
    await field.fill('muster_admin_of_somebody_else')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page
      .getByRole('alert')
      .getByText(/unknown or revoked key/)
      .waitFor()
    await field.fill(adminKey)
    await field.press('Enter')
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
    await page.getByRole('table', { name: 'Controllers' }).getByRole('row').nth(2).waitFor()
    await live(page).waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByRole('heading', { name: 'Log in', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'Log in', exact: true }).waitFor()
    expect(visitor.problems()).toEqual([])
  })
})

describe('an expired session', () => {
  it('shows the login page when a request is rejected', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings' })
    const { page, context } = visitor
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('late')
    await context.clearCookies()
    await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('heading', { name: 'Log in', exact: true }).waitFor()
    expect(await page.getByLabel('Admin key').count()).toBe(1)
  })
})

describe('the settings', () => {
  it('create a key that is shown once, works, and is rejected after it is revoked', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings' })
    const { page } = visitor
    await page.getByRole('button', { name: 'Create key' }).click()
    const sheet = page.getByRole('dialog', { name: 'Create key' })
    await sheet.getByLabel('Name').fill('ci')
    await sheet.getByLabel(/^inference/).check()
    await sheet.getByRole('button', { name: 'Create key' }).click()
    const shown = page.getByRole('dialog', { name: 'Key ci' })
    await shown.getByText(/It is not shown again/).waitFor()
    const key = (await shown.getByLabel('key', { exact: true }).textContent()) ?? ''
    // The key is not shown again: only Done closes it.
    for (let times = 0; times < 3; times += 1) await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    expect(await shown.getByLabel('key', { exact: true }).textContent()).toBe(key)
    const { url } = fleet.api
    const requestStatus = async () => (await createApiClient(url, key).get('/v1/models')).status
    expect(await requestStatus()).toBe(200)
    await shown.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('row', { name: /^ci inference/ }).waitFor()
    expect(await page.content()).not.toContain(key)
    await page.getByRole('button', { name: 'Revoke ci' }).click()
    await page.getByRole('dialog', { name: 'Revoke key ci?' }).getByRole('button', { name: 'Revoke key' }).click()
    await page.getByRole('row', { name: /^ci inference/ }).waitFor({ state: 'detached' })
    await waitFor(async () => (await requestStatus()) === 401, { what: 'the key is refused' })
    expect(visitor.problems()).toEqual([])
  })

  it('add, edit and remove a gallery, with the server’s message about an invalid URL', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings?tab=galleries' })
    const { page } = visitor
    const table = page.getByRole('table', { name: 'Backend galleries' })
    await table.getByRole('row', { name: /^builtin .* built in/ }).waitFor()
    expect(
      await table
        .getByRole('row', { name: /^test .* controller setting/ })
        .getByRole('button')
        .count(),
    ).toBe(0)
    await page.getByRole('button', { name: 'Add backend gallery' }).click()
    const sheet = page.getByRole('dialog', { name: 'Add backend gallery' })
    await sheet.getByLabel('Name').fill('ours')
    await sheet.getByLabel('URL').fill('ftp://example.org/x')
    await sheet.getByRole('button', { name: 'Add gallery' }).click()
    await sheet
      .getByRole('alert')
      .getByText(/a gallery is at https:/)
      .waitFor()
    await sheet.getByLabel('URL').fill('file:///nowhere/index.yaml')
    await sheet.getByRole('button', { name: 'Add gallery' }).click()
    const row = table.getByRole('row', { name: /^ours file:\/\/\/nowhere\/index.yaml added here/ })
    await row.getByText('error', { exact: true }).waitFor()
    await row.getByRole('button', { name: 'Edit ours' }).click()
    const edit = page.getByRole('dialog', { name: 'Edit gallery ours' })
    await edit.getByLabel('URL').fill('file:///elsewhere/index.yaml')
    await edit.getByRole('button', { name: 'Save' }).click()
    await table.getByRole('row', { name: /^ours file:\/\/\/elsewhere/ }).waitFor()
    await page.getByRole('button', { name: 'Remove ours' }).click()
    await page.getByRole('dialog', { name: 'Remove gallery ours?' }).getByRole('button', { name: 'Remove gallery' }).click()
    await table.getByRole('row', { name: /^ours/ }).waitFor({ state: 'detached' })
    expect(visitor.problems()).toEqual([])
  })

  it('SEC26 show the effective configuration with sources, changed settings first, without secrets', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings?tab=configuration' })
    const { page } = visitor
    const rows = page.getByRole('table', { name: 'Configuration' }).getByRole('row')
    await rows.filter({ hasText: '--backend-install-timeout' }).getByText('20m', { exact: true }).waitFor()
    const changed = rows.filter({ hasText: '--backend-install-timeout' })
    expect(await changed.textContent()).toMatch(/default 15m.*the command line/)
    expect(await rows.filter({ hasText: '--admin-key' }).textContent()).toMatch(/set.*MUSTER_ADMIN_KEY/)
    expect(await rows.last().textContent()).toMatch(/default$/)
    const { text } = await fleet.api.get('/api/settings')
    for (const seen of [await page.content(), text])
      for (const secret of [adminKey, joinToken, fleet.databaseUrl]) expect(seen).not.toContain(secret)
    await page.keyboard.press('/')
    await page.keyboard.type('upgrade timeout')
    await rows.filter({ hasText: '--port' }).waitFor({ state: 'detached' })
    expect(new URL(page.url()).searchParams.get('q')).toBe('upgrade timeout')
    expect(visitor.problems()).toEqual([])
  })
})

describe('a setting that changes at run time', () => {
  it('is changed and reset on the page, with the refusal of a wrong value, and the change is listed', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings?tab=configuration&q=model-load-wait' })
    const { page } = visitor
    const row = page.getByRole('table', { name: 'Configuration' }).getByRole('row', { name: '--model-load-wait' })
    await row.getByRole('button', { name: 'Change model-load-wait' }).click()
    const field = row.getByLabel('New value of model-load-wait')
    await field.fill('soon')
    await row.getByRole('button', { name: 'Save' }).click()
    await row.getByText(/"soon" is not a duration/).waitFor()
    await field.fill('90s')
    await row.getByRole('button', { name: 'Save' }).click()
    await row.getByText('90s', { exact: true }).waitFor()
    expect(await row.textContent()).toContain('an administrator')
    const changes = page.getByRole('table', { name: 'Changes of settings' })
    await changes.getByText('default → 90s').waitFor()
    await row.getByRole('button', { name: 'Reset model-load-wait' }).click()
    await changes.getByText('90s → default').waitFor()
    await row.getByText('an administrator').waitFor({ state: 'detached' })
    // A setting of the command line has no button.
    await page.goto(new URL('/settings?tab=configuration&q=backend-install-timeout', page.url()).href)
    await page.getByText(/Pinned by the command line of http/).waitFor()
    expect(await page.getByRole('button', { name: 'Change backend-install-timeout' }).count()).toBe(0)
  })
})

const pages = ['/', '/nodes', '/backends', '/models', '/models/new', '/operations', '/playground', '/settings', '/settings?tab=galleries']

describe('the frame', () => {
  it('follows shortcuts, but not while typing in a field', async () => {
    await using visitor = await visitWeb(fleet, { path: '/settings?tab=configuration' })
    const { page } = visitor
    await page.getByRole('table', { name: 'Configuration' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('g n?')
    expect(await page.getByRole('searchbox').inputValue()).toBe('g n?')
    await page.keyboard.press('Escape')
    await page.keyboard.press('?')
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await help.waitFor()
    await page.keyboard.press('Escape')
    await help.waitFor({ state: 'detached' })
    await page.keyboard.press('g')
    await page.keyboard.press('n')
    await page.getByRole('heading', { name: 'Nodes', level: 1 }).waitFor()
    await waitFor(async () => (await page.title()) === 'Nodes · Muster', { what: 'the title' })
    await page.reload()
    await live(page).waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('content')
    expect(new URL(page.url()).hash).toBe('')
    expect(visitor.problems()).toEqual([])
  })

  it('fits a screen of 400 px on every page, with a menu that opens and closes', async () => {
    await using visitor = await visitWeb(fleet, { width: 400 })
    const { page } = visitor
    const [node] = await nodesOf(fleet.api)
    const widths: unknown[] = []
    for (const path of [...pages, '/settings?tab=configuration', '/settings?tab=about', `/nodes/${String(node?.id)}`]) {
      await visitor.goto(path)
      await live(page).waitFor()
      widths.push([path, await page.evaluate('document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth')])
    }
    expect(widths.filter((each) => Array.isArray(each) && each[1] !== 0)).toEqual([])
    const nav = page.getByRole('navigation', { name: 'Pages' })
    expect(await nav.isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.keyboard.press('Escape')
    await nav.waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Menu' }).click()
    await nav.getByRole('link', { name: /^Settings/ }).click()
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
    expect(await nav.isVisible()).toBe(false)
    expect(visitor.problems()).toEqual([])
  })

  it('reloads once when the controller no longer has the files of its build', async () => {
    await using visitor = await visitWeb(fleet, { isLoggedIn: false })
    const { page, context } = visitor
    let isUpgraded = false
    await context.route(/\/assets\/settings-page/, (route) =>
      isUpgraded ? route.continue() : route.fulfill({ status: 404, body: 'there is no such file; reload the page' }),
    )
    await page.getByLabel('Admin key').fill(adminKey)
    await page.getByLabel('Admin key').press('Enter')
    await live(page).waitFor()
    await page.evaluate('window.isOld = true')
    page.once('domcontentloaded', () => (isUpgraded = true))
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('table', { name: 'API keys' }).waitFor()
    expect(await page.evaluate('window.isOld')).toBeUndefined()
  })

  it('reconnects after a controller restart and is up to date without a reload', async () => {
    const [first, second] = fleet.controllers
    if (first === undefined || second === undefined) throw new Error('there are two')
    await using visitor = await visitWeb(fleet, { path: '/nodes' })
    const { page } = visitor
    const row = page.getByRole('row', { name: /one/ })
    await row.getByText('healthy', { exact: true }).first().waitFor()
    await page.evaluate('window.isSame = true')
    // All pages are loaded in idle time after the first.
    for (const name of ['playground', 'settings', 'overview']) {
      // Not waitForFunction: it polls by eval, which the page's Content-Security-Policy forbids.
      const isLoaded = `performance.getEntriesByType('resource').some((file) => file.name.includes('/${name}-page'))`
      await waitFor(async () => (await page.evaluate(isLoaded)) === true, { what: `the files of ${name}` })
    }
    first.process.kill('SIGKILL')
    await first.process.exited
    await page.getByText(/^reconnecting, \d+s/).waitFor()
    // A page that was never opened opens without the controller.
    await page.getByRole('link', { name: 'Playground' }).click()
    await page.getByRole('heading', { name: 'Playground', level: 1 }).waitFor()
    const [node] = await nodesOf(second.api)
    expect((await second.api.post(`/api/nodes/${String(node?.id)}/drain`)).status).toBe(200)
    await fleet.restartController(first)
    await live(page).waitFor({ timeout: 20_000 })
    await page
      .getByRole('link', { name: /^Nodes/ })
      .first()
      .click()
    await row.getByText('drained', { exact: true }).first().waitFor({ timeout: 20_000 })
    expect(await page.evaluate('window.isSame')).toBe(true)
    await second.api.post(`/api/nodes/${String(node?.id)}/resume`)
    await row.getByText('healthy', { exact: true }).first().waitFor()
    await untilHealthy(fleet, 1)
    expect(visitor.problems()).toEqual([])
  })
})
