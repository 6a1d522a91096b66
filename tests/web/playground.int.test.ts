// The playground in the browser, on a fleet with a scripted backend.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { openBrowser, scripted, waitFor } from '@muster/testkit'
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from '../fleet/fleet-world.ts'
import { visitWeb, type WebVisitor } from './web-world.ts'

let fleet: Fleet
let browser: Browser
beforeAll(async () => {
  browser = await openBrowser()
  fleet = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one'], args: ['--model-load-wait', '1s', '--expose-routing'] })
  await fleet.putModel('tokens')
  // Responds with the request it received.
  await fleet.putModel('mirror', { echo: true })
  for (const model of ['tokens', 'mirror']) {
    await fleet.api.post(`/api/models/${model}/load`, {})
    await fleet.until(model, ({ state }) => state === 'ready')
  }
})
afterAll(async () => {
  await browser.close()
  await fleet[Symbol.asyncDispose]()
})

const visit = (path: string): Promise<WebVisitor> => visitWeb(fleet, { path, browser })
const ask = async (page: Page, question: string): Promise<void> => {
  await page.getByRole('textbox', { name: 'Message' }).fill(question)
  await page.keyboard.press('Enter')
}
const answerOf = (page: Page, number = 1): Locator => page.getByRole('article', { name: `Response ${number}` })
const textOf = async (answer: Locator): Promise<string> => (await answer.locator('[data-answer]').textContent()) ?? ''
/** Waits until the response has ended. */
const figuresOf = async (answer: Locator): Promise<string> => {
  const figures = answer.getByRole('note', { name: 'Statistics' })
  await figures.waitFor({ timeout: 60_000 })
  return figures.innerText()
}
const mirrored = async (answer: Locator): Promise<Record<string, unknown>> => {
  await figuresOf(answer)
  return JSON.parse(await textOf(answer))
}
const user = (content: string) => ({ role: 'user', content })

describe('the playground', () => {
  it('shows the loading of a model, and repeats the request', async () => {
    await fleet.putModel('slow', { start_delay_ms: 4_000 })
    await using visitor = await visit('/playground?model=slow')
    const { page } = visitor
    const statuses: number[] = []
    page.on('response', (response) => response.url().endsWith('/v1/chat/completions') && statuses.push(response.status()))
    await page.getByText('slow is not loaded. The first message loads it.').waitFor()
    await ask(page, 'hello')
    const loading = answerOf(page).getByRole('group', { name: 'Loading slow' })
    await loading.waitFor()
    await loading.getByRole('listitem').filter({ hasText: 'loading' }).and(page.locator('[aria-current=step]')).waitFor({ timeout: 30_000 })
    await loading.getByText('on one').waitFor()
    const figures = await figuresOf(answerOf(page))
    expect(await textOf(answerOf(page))).toBe('token-0 token-1 token-2 token-3 token-4 ')
    expect(figures).toMatch(/1 prompt \+ 5 completion tokens.*first token .*waited [\d.]+ s for the model.*total.*on one/s)
    expect(statuses.filter((status) => status === 503).length).toBeGreaterThan(0)
    expect(statuses.at(-1)).toBe(200)
    expect(visitor.problems()).toEqual([])
  })

  it('G5 stops the backend too', async () => {
    await using visitor = await visit('/playground?model=tokens')
    const { page } = visitor
    const before = scriptedOf(await fleet.ask('tokens')).aborted
    await ask(page, scripted({ never_end: true, delay_ms: 20 }))
    await answerOf(page).getByText('on on on').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await answerOf(page).getByText('Stopped. The response is incomplete.').waitFor()
    await waitFor(async () => scriptedOf(await fleet.ask('tokens')).aborted === before + 1, { what: 'the backend to stop' })
    await page.getByRole('button', { name: 'Send' }).waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it.each([
    // The server's last message may be lost with the connection; then the browser's error is shown.
    ['breaks off', { cut_after: 2, delay_ms: 300 }, /Interrupted: .*(backend|connection)/],
    ['ends early', { end_after: 2 }, /Interrupted: /],
  ])('shows a response that %s as interrupted, with its text', async (_, script, text) => {
    await using visitor = await visit('/playground?model=tokens')
    const { page } = visitor
    await ask(page, scripted(script))
    await answerOf(page).getByRole('alert').getByText(text).waitFor()
    expect(await textOf(answerOf(page))).toBe('token-0 token-1 ')
    expect(visitor.problems()).toEqual([])
  })

  it('shows why a request failed, with a link to the model', async () => {
    await fleet.putModel('broken', { crash_at_start: 'no such tensor' })
    await using visitor = await visit('/playground?model=broken')
    const { page } = visitor
    await ask(page, 'hello')
    const refusal = answerOf(page).getByRole('alert')
    await refusal.getByText('no such tensor').waitFor({ timeout: 60_000 })
    expect(await refusal.getByRole('link', { name: /Open broken/ }).getAttribute('href')).toBe('/models/broken')
    await page.getByRole('button', { name: 'Regenerate' }).waitFor()
    expect(visitor.problems()).toEqual([])
  })

  it('sends its parameters without empty ones', async () => {
    await using visitor = await visit('/playground?model=mirror')
    const { page } = visitor
    await ask(page, 'first')
    expect(await mirrored(answerOf(page))).toEqual({
      ...{ model: 'mirror', messages: [user('first')], stream: true },
      stream_options: { include_usage: true },
    })
    await page.getByRole('button', { name: 'Clear conversation' }).click()
    await page.getByText('Parameters').click()
    for (const [label, value] of Object.entries({
      ...{ 'System prompt': 'Be short.', Temperature: '0', 'Top p': '0,9', 'Max tokens': '7', Seed: '42' },
      'Stop sequences, one per line': '###\nEnd',
    }))
      await page.getByLabel(label).fill(value)
    await ask(page, 'second')
    expect(await mirrored(answerOf(page))).toMatchObject({
      ...{ temperature: 0, top_p: 0.9, max_tokens: 7, seed: 42, stop: ['###', 'End'] },
      messages: [{ role: 'system', content: 'Be short.' }, user('second')],
    })
    await page.getByLabel('Temperature').fill('3')
    await page.getByLabel('Message').fill('third')
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
    expect(visitor.problems()).toEqual([])
  })

  it('offers a command that sends exactly the same request', async () => {
    await using visitor = await visit('/playground?model=mirror')
    const { page, context } = visitor
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    const question = `It's "quoted" \\ and \`date\` $HOME\nin two lines`
    await ask(page, question)
    const asked = await mirrored(answerOf(page))
    await page.getByText('Request as code').click()
    await page.getByRole('button', { name: 'Copy request as curl' }).click()
    await page.getByText('Copied').waitFor()
    const command = String(await page.evaluate('navigator.clipboard.readText()'))
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { env: { PATH: process.env['PATH'] ?? '' } })
    const answered = JSON.parse(JSON.parse(stdout).choices[0].message.content)
    expect(answered).toEqual({ model: 'mirror', messages: [user(question)] })
    expect(answered.messages).toEqual(asked['messages'])
    expect(visitor.problems()).toEqual([])
  })

  it('keeps the conversation on other pages and after a reload, until it is cleared', async () => {
    await using visitor = await visit('/playground?model=tokens')
    const { page } = visitor
    await ask(page, scripted({ tokens: 30, delay_ms: 100 }))
    await answerOf(page).getByText('token-0').waitFor()
    const pages = page.getByRole('navigation', { name: 'Pages' })
    await pages.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor()
    await pages.getByRole('link', { name: 'Playground' }).click()
    await figuresOf(answerOf(page))
    expect(await textOf(answerOf(page))).toMatch(/token-29 $/)
    await page.reload()
    expect(await textOf(answerOf(page))).toMatch(/token-29 $/)
    await page.getByLabel('Model').selectOption('mirror')
    await ask(page, 'and now?')
    expect(((await mirrored(answerOf(page, 2)))['messages'] as object[]).slice(-2)).toEqual([
      { role: 'assistant', content: expect.stringMatching(/token-29 $/) },
      user('and now?'),
    ])
    await page.getByRole('button', { name: 'Edit' }).click()
    expect(await page.getByLabel('Message').inputValue()).toBe('and now?')
    expect(await answerOf(page, 2).count()).toBe(0)
    await page.getByRole('button', { name: 'Clear conversation' }).click()
    expect(await answerOf(page).count()).toBe(0)
    expect(visitor.problems()).toEqual([])
  })
})
