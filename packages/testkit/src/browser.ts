// Drives a real browser (Debian's Chromium) that can reach nothing but this machine. The integration tests of a run share
// one browser process, which global setup starts; a test gets a connection with contexts of its own.
import { existsSync } from 'node:fs'
import type { Browser } from 'playwright-core'

// Without the parts that draw on a screen: two thirds of the CPU time of the whole browser.
const executablePath = '/usr/bin/chromium-headless-shell'

export async function openBrowser(): Promise<Browser> {
  // Loaded here: most tests import this package and few need a browser.
  const { chromium } = await import('playwright-core')
  const shared = process.env['TEST_BROWSER']
  return shared === undefined ? await chromium.launch(launchOptions()) : await chromium.connect(shared)
}

/** Returns the address that `openBrowser` connects to, and how to stop it. */
export async function startSharedBrowser(): Promise<{ readonly endpoint: string; stop(): Promise<void> }> {
  const { chromium } = await import('playwright-core')
  const server = await chromium.launchServer(launchOptions())
  return { endpoint: server.wsEndpoint(), stop: () => server.close() }
}

function launchOptions(): { executablePath: string; headless: true; args: string[] } {
  if (!existsSync(executablePath)) throw new Error(`browser tests need ${executablePath}: apt-get install chromium-headless-shell`)
  return { executablePath, headless: true, args: [...flags, ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])] }
}

const flags = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1]',
]
