// Every page with its tabs and dialogs, in light and dark, on a fleet with hostile names and texts: automated checks of
// WCAG 2.1 A and AA, and that foreign text is never interpreted as HTML.
import axe from 'axe-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startShowcaseFleet, type ShowcaseFleet } from './showcase-fleet.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

const html = '<img src=x onerror=alert(1)>'
/** The same for a browser, without spaces, which a URI cannot contain. */
const tag = '<img/src=x/onerror=alert(1)>'
const [two, newcomer, words] = [`two ${html}`, `new ${html}`, `Words ${html}`]

let fleet: ShowcaseFleet
let visitor: WebVisitor
const dialogs: string[] = []
beforeAll(async () => {
  const names = { workers: ['one', two], pending: newcomer, words, lastWords: words, missing: `file:///nowhere/${tag}` }
  fleet = await startShowcaseFleet({ postgresUrl: inject('postgresUrl'), ...names })
  visitor = await visitWeb(fleet)
  visitor.page.on('dialog', (dialog) => {
    dialogs.push(dialog.message())
    void dialog.dismiss()
  })
  // Injected through the debugger, so that the page's content security policy stays in force.
  await visitor.page.evaluate(axe.source)
}, 240_000)
afterAll(async () => {
  await visitor?.[Symbol.asyncDispose]()
  await fleet?.[Symbol.asyncDispose]()
})

/** Navigates like a link: the document stays, and axe with it. */
async function open(path: string): Promise<void> {
  const { page } = visitor
  await page.evaluate(`history.pushState({}, '', ${JSON.stringify(path)})`)
  await page.locator('h1').first().waitFor()
  await page
    .getByText(/^Loading .*…/)
    .first()
    .waitFor({ state: 'detached' })
}

const everything = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }
/** The only rule that depends on the color scheme. */
const contrast = { type: 'rule', values: ['color-contrast'] }

async function violations({ page }: WebVisitor): Promise<string> {
  const found: string[] = []
  for (const [colorScheme, only] of [
    ['dark', contrast],
    ['light', everything],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    const run = `axe.run(document, { runOnly: ${JSON.stringify(only)}, resultTypes: ['violations'] })`
    for (const { id, nodes } of (await page.evaluate<axe.AxeResults>(run)).violations)
      for (const { target, html: element, any, all } of nodes)
        found.push(
          `${page.url()} (${colorScheme}) ${id}: ${target.join(' ')}\n  ${element.slice(0, 200)}\n  ${[...any, ...all][0]?.message ?? ''}`,
        )
  }
  return found.join('\n')
}

/** Checks the open page; returns its text. */
async function checkPage(): Promise<string> {
  const { page, problems } = visitor
  expect.soft(await violations(visitor)).toBe('')
  expect.soft(await page.locator('img[src="x"], [onerror]').count()).toBe(0)
  expect.soft([dialogs, problems()]).toEqual([[], []])
  return await page.locator('body').innerText()
}

/** Pages, with foreign texts that must appear on them or on one of their tabs. */
const pages: readonly (readonly [name: string, path: (fleet: ShowcaseFleet) => string, texts?: readonly string[]])[] = [
  ['the overview', () => '/'],
  ['the nodes', () => '/nodes', [two, newcomer]],
  ['the dialog to add a node', () => '/nodes?add=true'],
  ['a node', ({ node }) => `/nodes/${node}`],
  ['the backends', () => '/backends', [words]],
  ['the install sheet', () => '/backends?act=install&backend=vision', [two]],
  ['the models', () => '/models', [words]],
  ['a new model', () => '/models/new'],
  ['a model that is ready', () => '/models/chat', [two]],
  ['a model that failed', () => '/models/broken', [words]],
  ['a model with an odd name', () => `/models/${encodeURIComponent('team/idle')}`],
  ['an operation that runs', ({ running }) => `/operations?op=${running}`, [two]],
  ['an operation that failed', ({ failed }) => `/operations?tab=history&op=${failed}`, [tag]],
  ['the operations', () => '/operations'],
  ['the settings', () => '/settings'],
]

describe('passes the WCAG 2.1 A and AA rules in light and dark, and shows foreign text as text', () => {
  it.each(pages.map(([name, path, texts = []]) => ({ name, path, texts })))('$name', { timeout: 180_000 }, async ({ path, texts }) => {
    const { page } = visitor
    await open(path(fleet))
    const read = [await checkPage()]
    const links = await page.getByRole('main').getByRole('navigation').getByRole('link').all()
    const tabs = (await Promise.all(links.map((link) => link.getAttribute('href')))).filter((href) => href?.includes('tab=') === true)
    // The first tab is already open; behind a dialog the tabs do not matter.
    for (const tab of (await page.getByRole('dialog').count()) > 0 ? [] : tabs.slice(1)) {
      await open(tab ?? '')
      read.push(await checkPage())
    }
    for (const text of texts) expect.soft(read.join('\n')).toContain(text)
  })

  it('the playground with a response', { timeout: 180_000 }, async () => {
    const { page } = visitor
    await open('/playground?model=chat')
    await page.getByRole('textbox', { name: 'Message' }).fill(`scripted ${JSON.stringify({ say: `${html} `, tokens: 3 })}`)
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'Response 1' }).waitFor()
    await page.getByRole('note', { name: 'Statistics' }).waitFor()
    expect(await checkPage()).toContain(html)
  })

  it('the login page', { timeout: 180_000 }, async () => {
    await using stranger = await visitWeb(fleet, { isLoggedIn: false })
    await stranger.page.evaluate(axe.source)
    expect(await violations(stranger)).toBe('')
    expect(stranger.problems()).toEqual([])
  })
})
