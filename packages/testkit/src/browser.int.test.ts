import { once } from 'node:events'
import { createServer } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Browser } from 'playwright-core'
import { openBrowser } from './browser.ts'

const server = createServer((_request, response) => response.end('<title>here</title>'))
let browser: Browser

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  browser = await openBrowser()
})
afterAll(async () => {
  await browser.close()
  server.closeAllConnections()
  server.close()
})

describe('openBrowser', () => {
  it('shows a page of this machine', async () => {
    const address = server.address()
    const page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`)
    expect(await page.title()).toBe('here')
  })

  it.each(['http://example.org/', 'http://192.0.2.1/'])('cannot reach %s', async (url) => {
    const page = await browser.newPage()
    await expect(page.goto(url, { timeout: 5_000 })).rejects.toThrow('ERR_NAME_NOT_RESOLVED')
  })
})
