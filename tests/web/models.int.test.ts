// Models in the browser: create, load, change, place, unload and delete.
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
const slow = { timeout: 30_000 }

describe('models in the browser', { timeout: 120_000 }, () => {
  it('a model is created after a typo was fixed, is loaded, and turns ready without a reload', async () => {
    await using visitor = await visit('/models')
    const { page, problems } = visitor
    await page.getByRole('link', { name: 'New model' }).click()
    // The example is valid.
    await page.getByRole('button', { name: 'Create my-model' }).waitFor()
    await editor(page).fill('name: org/written:q4@1\nbackend: scripted\ncontext_sise: 5\n')
    const problem = page.getByText('line 3: unknown key "context_sise"; the closest known key is context_size')
    await problem.waitFor()
    expect(await page.getByRole('button', { name: /^Create/ }).isDisabled()).toBe(true)
    // A file of LocalAI is taken too, and summed up.
    await editor(page).fill('name: tug\u00e3o\nbackend: scripted\nf16: true\nusage: none\n')
    await page.getByText('✓ Valid, converted from LocalAI: 2 mapped, 1 carried, 1 without effect: usage').waitFor()
    await editor(page).fill('name: org/written:q4@1\nbackend: scripted\ncontext_size: 5\n')
    await page.getByRole('button', { name: 'Create org/written:q4@1' }).click()
    await page.getByRole('heading', { name: 'org/written:q4@1', level: 1 }).waitFor()
    await page.getByText('No replicas running.').waitFor()
    await page.getByRole('button', { name: 'Load', exact: true }).click()
    await page
      .getByRole('row', { name: /one|two/ })
      .getByText('ready')
      .waitFor(slow)
    await page.getByText(/^1 of 1 replica ready on (one|two); 0 requests\/min\.$/).waitFor(slow)
    expect(new URL(page.url()).searchParams.get('op')).toMatch(/^op-/)
    // The address works for any name.
    await visitor.goto(`/models/${encodeURIComponent('org/written:q4@1')}?tab=config`)
    expect(await editor(page).inputValue()).toBe('name: "org/written:q4@1"\nbackend: scripted\ncontext_size: 5\n')
    await page.getByText('✓ Valid').waitFor()
    expect(problems()).toEqual([])
  })

  it('a draft based on an older revision is kept and not saved until the conflict is resolved', async () => {
    await fleet.putModel('shared', {}, { context_size: 1 })
    await using visitor = await visit('/models/shared?tab=config')
    const { page, problems } = visitor
    await editor(page).fill('name: shared\nbackend: scripted\ncontext_size: 2\n')
    await page.getByText('Creates a new revision: used by the next load.').waitFor()
    await fleet.putModel('shared', {}, { context_size: 3 })
    await page.getByText('shared was changed by someone else').waitFor()
    expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Load latest version' }).click()
    expect(await editor(page).inputValue()).toContain('context_size: 3')
    await page.getByRole('button', { name: 'Restore my changes' }).click()
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Saved shared').waitFor()
    expect((await fleet.api.get('/api/models/shared')).body).toMatchObject({ config: { context_size: 2 } })
    expect(problems()).toEqual([])
  })

  it('a save rejected for a newer revision shows the conflict and keeps the draft', async () => {
    await fleet.putModel('raced', {}, { context_size: 1 })
    await using visitor = await visit('/models/raced?tab=config')
    const { page, problems } = visitor
    await editor(page).fill('name: raced\nbackend: scripted\ncontext_size: 2\n')
    await page.getByText('Creates a new revision').waitFor()
    // Another save is faster, before the page receives its event.
    await page.route('**/api/models/raced', async (route) => {
      if (route.request().method() === 'PUT') await fleet.putModel('raced', {}, { context_size: 3 })
      await route.continue()
    })
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('raced was changed by someone else').waitFor()
    expect(await editor(page).inputValue()).toContain('context_size: 2')
    await page.getByRole('button', { name: 'Load latest version' }).click()
    await expect.poll(() => editor(page).inputValue()).toContain('context_size: 3')
    expect((await fleet.api.get('/api/models/raced')).body).toMatchObject({ config: { context_size: 3 } })
    expect(problems()).toEqual([])
  })

  it('any configuration is shown as equivalent YAML', async () => {
    const options = { yes: 'no', '': ['0x1', { 'a: b': '# c' }, [[], {}]], text: 'one: 1\n\n  two\t', line: ' x ', '1': 1.5e300, n: null }
    await fleet.putModel('odd', options as object, { description: 'a: "b" # c', parameters: { stop: ['\n', '---'] } })
    await using visitor = await visit('/models/odd?tab=config')
    const { page, problems } = visitor
    await page.getByText('✓ Valid').waitFor()
    await editor(page).press('Control+End')
    await editor(page).pressSequentially('# the same\n')
    await page.getByText('No effective changes.').waitFor()
    expect(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled()).toBe(true)
    // Leaving with unsaved changes needs a confirmation.
    await page.getByRole('link', { name: 'Placement' }).click()
    await page.getByRole('button', { name: 'Stay on page' }).click()
    expect(await editor(page).inputValue()).toContain('# the same')
    await page.getByRole('link', { name: 'Placement' }).click()
    await page.getByRole('button', { name: 'Leave page' }).click()
    await page.getByRole('table', { name: 'Placement' }).waitFor()
    expect(problems()).toEqual([])
  })

  it('the scheduling form shows errors and a preview, and the placement shows the reasons', async () => {
    await fleet.putModel('placed')
    await using visitor = await visit('/models/placed?tab=scheduling')
    const { page, problems } = visitor
    await page.getByRole('textbox', { name: 'Minimum' }).fill('3')
    await page.getByRole('textbox', { name: 'Maximum' }).fill('2')
    await page.getByText('min_replicas is greater than max_replicas').waitFor()
    expect(await page.getByRole('button', { name: 'Save scheduling' }).isDisabled()).toBe(true)
    await page.getByRole('textbox', { name: 'Minimum' }).fill('')
    await page.getByRole('button', { name: 'Add label' }).click()
    await page.getByRole('textbox', { name: 'Label 1', exact: true }).fill('zone')
    await page.getByRole('textbox', { name: 'Value of label 1' }).fill('b, c')
    await page.getByText('one is no longer eligible.').waitFor()
    const preview = page.getByRole('table', { name: 'Placement preview' })
    await preview.getByRole('row', { name: 'one' }).getByText('no longer eligible').waitFor()
    await preview.getByRole('row', { name: 'two' }).getByText('eligible', { exact: true }).waitFor()
    await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('disabled')
    await page.getByRole('button', { name: 'Save scheduling' }).click()
    await page.getByText('Saved scheduling of placed').waitFor()
    expect((await fleet.api.get('/api/models/placed')).body).toMatchObject({
      config: { scheduling: { max_replicas: 2, disabled: true, node_selector: { zone: ['b', 'c'] } } },
    })
    await page.getByRole('link', { name: 'Placement' }).click()
    const excluded = page.getByRole('table', { name: 'Placement' }).getByRole('row', { name: 'one' })
    await excluded.getByText('selector', { exact: true }).waitFor()
    expect(await excluded.textContent()).toContain('zone')
    await page.getByText('1 of 2 nodes can run another replica').waitFor()
    await page.getByText('Memory of one replica:').waitFor()
    expect(problems()).toEqual([])
  })

  it('a model that fails to load shows the cause and the next attempt, in the list and on its page', async () => {
    await fleet.putModel('broken', { crash_at_start: 'CUDA error: out of memory' })
    await using visitor = await visit('/models')
    const { page, problems } = visitor
    await page.getByRole('button', { name: 'Load broken' }).click()
    const row = page.getByRole('row', { name: 'broken' })
    await row.getByText('failed', { exact: true }).waitFor(slow)
    expect(await row.textContent()).toMatch(/CUDA error: out of memory/)
    await page.getByText(/broken failed to load: .*CUDA error/).waitFor()
    await visitor.goto('/models/broken')
    const failure = page.getByRole('region', { name: 'Failure' })
    await failure.getByText('CUDA error: out of memory').waitFor(slow)
    await failure.getByText(/Next attempt/).waitFor()
    await failure.getByRole('button', { name: 'Retry now' }).click()
    // A new revision is loaded at once.
    await fleet.putModel('broken')
    await page.getByText(/^1 of 1 replica ready on/).waitFor(slow)
    expect(await failure.count()).toBe(0)
    expect(problems()).toEqual([])
  })

  it('unloading and deleting list their effects first, and the list is updated', async () => {
    await fleet.putModel('doomed')
    await fleet.ask('doomed')
    await using visitor = await visit('/models?q=doomed')
    const { page, problems } = visitor
    const row = page.getByRole('row', { name: 'doomed' })
    await row.getByText('1 of 1').waitFor(slow)
    await page.getByRole('link', { name: 'Unload doomed', exact: true }).click()
    const sheet = page.getByRole('dialog', { name: 'Unload doomed' })
    await sheet.getByText(/^Stops 1 replica on (one|two); no requests in flight\.$/).waitFor()
    await sheet.getByRole('button', { name: 'Cancel' }).click()
    await sheet.waitFor({ state: 'detached' })
    // Closing went one step back in the history.
    await page.goForward()
    await sheet.getByRole('button', { name: 'Unload doomed' }).click()
    await row.getByText('unloaded', { exact: true }).waitFor(slow)
    await visitor.goto('/models?q=doomed&act=delete&model=doomed')
    await page.getByText('requests for doomed are then rejected as unknown').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete doomed' }).click()
    await row.waitFor({ state: 'detached' })
    expect((await fleet.api.get('/api/models/doomed')).status).toBe(404)
    await visitor.goto('/models/doomed')
    await page.getByText('Model doomed does not exist.').waitFor()
    expect(problems()).toEqual([])
  })
})
