// Opens the web page in a real browser, logged in by the one-time link. Collects script errors, console errors and
// violations of the content security policy.
import { openBrowser, type ApiClient } from '@muster/testkit'
import type { Browser, BrowserContext, Page } from 'playwright-core'

export interface WebVisitor extends AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** Opens a path such as `/nodes?q=a` with the same login. */
  goto(path: string): Promise<void>
  /** Script errors, console errors and policy violations since the last call. Failed requests do not count: the page shows them. */
  problems(): string[]
}
export interface VisitOptions {
  readonly path?: string
  readonly width?: number
  readonly height?: number
  readonly colorScheme?: 'light' | 'dark'
  readonly isLoggedIn?: boolean
  /** Shared by several visitors; a new one by default. */
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
    // While the page is being built, a placeholder reloads until it is ready.
    await page.locator('h1').first().waitFor({ timeout: 30_000 })
  }
  await goto(options.path ?? '/')
  problems() // Drops problems of the build phase.
  const owned = ending.move()
  return { page, context, goto, problems, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function watch(page: Page): Promise<() => string[]> {
  let problems: string[] = []
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(`console: ${message.text()}`)
  })
  // As text, because tests have no DOM types.
  await page.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    console.error('policy: ' + event.violatedDirective + ' refused ' + event.blockedURI + ' of ' + event.sourceFile))`)
  return () => {
    const collected = problems
    problems = []
    return collected
  }
}
