// A person at the web page: a real browser, logged in by the one-time link, that notices what a person would not, as
// errors on the console and what the page's own policy refused.
import { openBrowser, type ApiClient } from '@muster/testkit'
import type { Browser, BrowserContext, Page } from 'playwright-core'

export interface WebVisitor extends AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** Of one page alone, as `/nodes?q=a`, without losing the login. */
  goto(path: string): Promise<void>
  /** Errors of scripts and of the console, and what the policy refused, since it was last asked. Failed requests are not: those are to be shown. */
  problems(): string[]
}
export interface VisitOptions {
  readonly path?: string
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  readonly isLoggedIn?: boolean
  /** Shared by several visitors; its own unless told. */
  readonly browser?: Browser
}

export async function visitWeb({ api }: { readonly api: ApiClient }, options: VisitOptions = {}): Promise<WebVisitor> {
  await using ending = new AsyncDisposableStack()
  const browser = options.browser ?? ending.use(await openBrowser())
  const context = ending.use(
    await browser.newContext({
      viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
      colorScheme: options.colorScheme ?? 'light',
      reducedMotion: 'reduce',
    }),
  )
  const page = await context.newPage()
  const problems = await watch(page)
  if (options.isLoggedIn !== false) {
    const link = await api.post('/api/login-links', {})
    if (link.status !== 201) throw new Error(`${link.status} ${link.text}`)
    await page.goto(String(link.body['url']))
  }
  const goto = async (path: string): Promise<void> => {
    await page.goto(new URL(path, api.url).href)
    // The page may still be built: it asks again by itself until it is there.
    await page.locator('h1').first().waitFor({ timeout: 30_000 })
  }
  await goto(options.path ?? '/')
  problems() // while it was built
  const owned = ending.move()
  return { page, context, goto, problems, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function watch(page: Page): Promise<() => string[]> {
  let problems: string[] = []
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(`console: ${message.text()}`)
  })
  // As text: tests know no browser's types.
  await page.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    console.error('policy: ' + event.violatedDirective + ' refused ' + event.blockedURI + ' of ' + event.sourceFile))`)
  return () => {
    const seen = problems
    problems = []
    return seen
  }
}
