// Models at the web page: written, loaded, changed, placed, unloaded and deleted by a person.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { openBrowser } from '@muster/testkit'
import type { Browser, Page } from 'playwright-core'
import { startFleet, untilHealthy, type Fleet } from '../fleet/fleet-world.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

let fleet: Fleet
let browser: Browser
beforeAll(async () => {
  fleet = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one'] })
  await fleet.startWorker('two', ['--labels', 'zone=b'])
  await untilHealthy(fleet, 2)
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await fleet?.[Symbol.asyncDispose]()
})

const visit = (path: string): Promise<WebVisitor> => visitWeb(fleet, { path, browser })
const editor = (page: Page) => page.getByRole('textbox', { name: 'Configuration' })
const isIn = { timeout: 30_000 }

describe('models at the web page', { timeout: 120_000 }, () => {
  it('a model is written with a typo, put right, created, loaded, and is ready without anybody asking again', async () => {
    await using visitor = await visit('/models')
    const { page, problems } = visitor
    await page.getByRole('link', { name: 'New model' }).click()
    // The example is valid as it is.
    await page.getByRole('button', { name: 'Create my-model' }).waitFor()
    await editor(page).fill('name: org/written:q4@1\nbackend: scripted\ncontext_sise: 5\n')
    const said = page.getByText('line 3: unknown key "context_sise"; the closest known key is context_size')
    await said.waitFor()
    expect(await page.getByRole('button', { name: /^Create/ }).isDisabled()).toBe(true)
    await editor(page).fill('name: org/written:q4@1\nbackend: scripted\ncontext_size: 5\n')
    await page.getByRole('button', { name: 'Create org/written:q4@1' }).click()
    await page.getByRole('heading', { name: 'org/written:q4@1', level: 1 }).waitFor()
    await page.getByText('No process of it runs.').waitFor()
    await page.getByRole('button', { name: 'Load', exact: true }).click()
    await page
      .getByRole('row', { name: /one|two/ })
      .getByText('ready')
      .waitFor(isIn)
    await page.getByText(/^1 of 1 replica ready on (one|two); 0 requests\/min\.$/).waitFor(isIn)
    expect(new URL(page.url()).searchParams.get('op')).toMatch(/^op-/)
    // By its address alone, whatever is in its name.
    await visitor.goto(`/models/${encodeURIComponent('org/written:q4@1')}?tab=config`)
    expect(await editor(page).inputValue()).toBe('name: "org/written:q4@1"\nbackend: scripted\ncontext_size: 5\n')
    await page.getByText('✓ valid').waitFor()
    expect(problems()).toEqual([])
  })

  it('a text that is older than what somebody else saved is kept, and saves nothing until it is decided', async () => {
    await fleet.putModel('shared', {}, { context_size: 1 })
    await using visitor = await visit('/models/shared?tab=config')
    const { page, problems } = visitor
    await editor(page).fill('name: shared\nbackend: scripted\ncontext_size: 2\n')
    await page.getByText('Changes the revision: the next load uses it.').waitFor()
    await fleet.putModel('shared', {}, { context_size: 3 })
    await page.getByText('Somebody else changed shared while you did.').waitFor()
    expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Load the newer one' }).click()
    expect(await editor(page).inputValue()).toContain('context_size: 3')
    await page.getByRole('button', { name: 'Put mine back' }).click()
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('shared is saved.').waitFor()
    expect((await fleet.api.get('/api/models/shared')).body).toMatchObject({ config: { context_size: 2 } })
    expect(problems()).toEqual([])
  })

  it('a save that the server refuses for a newer revision says so and loses nothing', async () => {
    await fleet.putModel('raced', {}, { context_size: 1 })
    await using visitor = await visit('/models/raced?tab=config')
    const { page, problems } = visitor
    await editor(page).fill('name: raced\nbackend: scripted\ncontext_size: 2\n')
    await page.getByText('Changes the revision').waitFor()
    // Another one is faster, by as little as can be: before the page hears of it.
    await page.route('**/api/models/raced', async (route) => {
      if (route.request().method() === 'PUT') await fleet.putModel('raced', {}, { context_size: 3 })
      await route.continue()
    })
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Somebody else changed raced while you did.').waitFor()
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Load the newer one' }).click()
    await expect.poll(() => editor(page).inputValue()).toContain('context_size: 3')
    expect((await fleet.api.get('/api/models/raced')).body).toMatchObject({ config: { context_size: 3 } })
    expect(problems()).toEqual([])
  })

  it('whatever a configuration holds is shown as YAML that means the same', async () => {
    const options = { yes: 'no', '': ['0x1', { 'a: b': '# c' }, [[], {}]], text: 'one: 1\n\n  two\t', line: ' x ', '1': 1.5e300, n: null }
    await fleet.putModel('odd', options as object, { description: 'a: "b" # c', parameters: { stop: ['\n', '---'] } })
    await using visitor = await visit('/models/odd?tab=config')
    const { page, problems } = visitor
    await page.getByText('✓ valid').waitFor()
    await editor(page).press('Control+End')
    await editor(page).pressSequentially('# the same\n')
    await page.getByText('It means what is saved already.').waitFor()
    expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
    // Leaving is asked about, and can be taken back.
    await page.getByRole('link', { name: 'Placement' }).click()
    await page.getByRole('button', { name: 'Stay here' }).click()
    expect(await editor(page).inputValue()).toContain('# the same')
    await page.getByRole('link', { name: 'Placement' }).click()
    await page.getByRole('button', { name: 'Leave, and lose the changes' }).click()
    await page.getByRole('table', { name: 'Placement' }).waitFor()
    expect(problems()).toEqual([])
  })

  it('the scheduling form says what is wrong beside the field, what it would mean, and the placement why not', async () => {
    await fleet.putModel('placed')
    await using visitor = await visit('/models/placed?tab=scheduling')
    const { page, problems } = visitor
    await page.getByRole('textbox', { name: 'At least' }).fill('3')
    await page.getByRole('textbox', { name: 'At most' }).fill('2')
    await page.getByText('min_replicas is greater than max_replicas').waitFor()
    expect(await page.getByRole('button', { name: 'Save scheduling' }).isDisabled()).toBe(true)
    await page.getByRole('textbox', { name: 'At least' }).fill('')
    await page.getByRole('button', { name: 'Add a label' }).click()
    await page.getByRole('textbox', { name: 'Label 1', exact: true }).fill('zone')
    await page.getByRole('textbox', { name: 'Value of label 1' }).fill('b, c')
    await page.getByText('one no longer is.').waitFor()
    const preview = page.getByRole('table', { name: 'Placement preview' })
    await preview.getByRole('row', { name: 'one' }).getByText('no longer eligible').waitFor()
    await preview.getByRole('row', { name: 'two' }).getByText('eligible', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Save scheduling' }).click()
    await page.getByText('The scheduling of placed is saved.').waitFor()
    expect((await fleet.api.get('/api/models/placed')).body).toMatchObject({
      config: { scheduling: { max_replicas: 2, node_selector: { zone: ['b', 'c'] } } },
    })
    await page.getByRole('link', { name: 'Placement' }).click()
    const excluded = page.getByRole('table', { name: 'Placement' }).getByRole('row', { name: 'one' })
    await excluded.getByText('selector', { exact: true }).waitFor()
    expect(await excluded.textContent()).toContain('zone')
    await page.getByText('1 of 2 nodes can take one more replica').waitFor()
    expect(problems()).toEqual([])
  })

  it('a model that does not come up shows the real cause and the next try, in the list and by itself', async () => {
    await fleet.putModel('broken', { crash_at_start: 'CUDA error: out of memory' })
    await using visitor = await visit('/models')
    const { page, problems } = visitor
    await page.getByRole('button', { name: 'Load broken' }).click()
    const row = page.getByRole('row', { name: 'broken' })
    await row.getByText('failed', { exact: true }).waitFor(isIn)
    expect(await row.textContent()).toMatch(/CUDA error: out of memory/)
    await page.getByText(/broken failed to load: .*CUDA error/).waitFor()
    await visitor.goto('/models/broken')
    const failure = page.getByRole('region', { name: 'Failure' })
    await failure.getByText('CUDA error: out of memory').waitFor(isIn)
    await failure.getByText(/Next try|The next try is due/).waitFor()
    await failure.getByRole('button', { name: 'Try again now' }).click()
    // Another revision is another try.
    await fleet.putModel('broken')
    await page.getByText(/^1 of 1 replica ready on/).waitFor(isIn)
    expect(await failure.count()).toBe(0)
    expect(problems()).toEqual([])
  })

  it('unloading and deleting say first what will happen, and the list follows', async () => {
    await fleet.putModel('doomed')
    await fleet.ask('doomed')
    await using visitor = await visit('/models?q=doomed')
    const { page, problems } = visitor
    const row = page.getByRole('row', { name: 'doomed' })
    await row.getByText('1 of 1').waitFor(isIn)
    await page.getByRole('link', { name: 'Unload doomed' }).click()
    const sheet = page.getByRole('dialog', { name: 'Unload doomed' })
    await sheet.getByText(/^1 replica on (one|two) ends; nothing is in flight\.$/).waitFor()
    await sheet.getByRole('button', { name: 'Leave it as it is' }).click()
    await sheet.waitFor({ state: 'detached' })
    // Closing it was the step back: only forward leads to it again.
    await page.goForward()
    await sheet.getByRole('button', { name: 'Unload doomed' }).click()
    await row.getByText('unloaded', { exact: true }).waitFor(isIn)
    await visitor.goto('/models?q=doomed&act=delete&model=doomed')
    await page.getByText('from then on requests for doomed are refused as unknown').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete doomed' }).click()
    await row.waitFor({ state: 'detached' })
    expect((await fleet.api.get('/api/models/doomed')).status).toBe(404)
    await visitor.goto('/models/doomed')
    await page.getByText('There is no model doomed.').waitFor()
    expect(problems()).toEqual([])
  })
})
