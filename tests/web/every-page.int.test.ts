// Every page, every tab of it and what opens over it, in light and in dark, on a fleet whose names and texts are hostile:
// whoever can't see it well can use it (WCAG 2.1 A and AA, as far as a program can tell), and what others wrote is text.
import axe from 'axe-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startShownFleet, type ShownFleet } from './shown-fleet.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

const html = '<img src=x onerror=alert(1)>'
/** The same to a browser, without the spaces that an address can't have. */
const tag = '<img/src=x/onerror=alert(1)>'
const [two, newcomer, words] = [`two ${html}`, `new ${html}`, `Words ${html}`]

let fleet: ShownFleet
let visitor: WebVisitor
const dialogs: string[] = []
beforeAll(async () => {
  const names = { workers: ['one', two], pending: newcomer, words, lastWords: words, missing: `file:///nowhere/${tag}` }
  fleet = await startShownFleet({ postgresUrl: inject('postgresUrl'), ...names })
  visitor = await visitWeb(fleet)
  visitor.page.on('dialog', (dialog) => {
    dialogs.push(dialog.message())
    void dialog.dismiss()
  })
  // By the debugger, which the page's policy does not concern: nothing of it has to be weakened for the test.
  await visitor.page.evaluate(axe.source)
}, 240_000)
afterAll(async () => {
  await visitor?.[Symbol.asyncDispose]()
  await fleet?.[Symbol.asyncDispose]()
})

/** Goes there as a link does: the document stays, and axe with it. */
async function open(path: string): Promise<void> {
  const { page } = visitor
  await page.evaluate(`history.pushState({}, '', ${JSON.stringify(path)})`)
  await page.locator('h1').first().waitFor()
  await page
    .getByText(/^Reading .* …/)
    .first()
    .waitFor({ state: 'detached' })
}

const everything = { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }
/** What changes with the colours is their contrast. */
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

/** Looks at what is open now; gives all that can be read there. */
async function expectWell(): Promise<string> {
  const { page, problems } = visitor
  expect.soft(await violations(visitor)).toBe('')
  expect.soft(await page.locator('img[src="x"], [onerror]').count()).toBe(0)
  expect.soft([dialogs, problems()]).toEqual([[], []])
  return await page.locator('body').innerText()
}

/** With what somebody else wrote and has to be there, as text, on the page or one of its tabs. */
const places: readonly (readonly [name: string, path: (fleet: ShownFleet) => string, texts?: readonly string[]])[] = [
  ['the overview', () => '/'],
  ['the nodes', () => '/nodes', [two, newcomer]],
  ['how to add a node', () => '/nodes?add=true'],
  ['a node', ({ node }) => `/nodes/${node}`],
  ['the backends', () => '/backends', [words]],
  ['a wish to install', () => '/backends?wish=install&backend=vision', [two]],
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

describe('breaks no rule of WCAG 2.1 A and AA in light and dark, and shows what others wrote as text', () => {
  it.each(places.map(([name, path, texts = []]) => ({ name, path, texts })))('$name', { timeout: 180_000 }, async ({ path, texts }) => {
    const { page } = visitor
    await open(path(fleet))
    const read = [await expectWell()]
    const links = await page.getByRole('main').getByRole('navigation').getByRole('link').all()
    const tabs = (await Promise.all(links.map((link) => link.getAttribute('href')))).filter((href) => href?.includes('tab=') === true)
    // The first is what is shown already. Behind a dialog nothing changes with the tab.
    for (const tab of (await page.getByRole('dialog').count()) > 0 ? [] : tabs.slice(1)) {
      await open(tab ?? '')
      read.push(await expectWell())
    }
    for (const text of texts) expect.soft(read.join('\n')).toContain(text)
  })

  it('the playground with an answer', { timeout: 180_000 }, async () => {
    const { page } = visitor
    await open('/playground?model=chat')
    await page.getByRole('textbox', { name: 'Question' }).fill(`scripted ${JSON.stringify({ say: `${html} `, tokens: 3 })}`)
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'Answer 1' }).waitFor()
    await page.getByRole('note', { name: 'Figures' }).waitFor()
    expect(await expectWell()).toContain(html)
  })

  it('the way in', { timeout: 180_000 }, async () => {
    await using stranger = await visitWeb(fleet, { isLoggedIn: false })
    await stranger.page.evaluate(axe.source)
    expect(await violations(stranger)).toBe('')
    expect(stranger.problems()).toEqual([])
  })
})
