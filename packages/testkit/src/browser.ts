// A real browser (Debian's chromium) that can reach nothing but this machine.
import { existsSync } from 'node:fs'
import type { Browser } from 'playwright-core'

const executablePath = '/usr/bin/chromium'

export async function openBrowser(): Promise<Browser> {
  if (!existsSync(executablePath)) throw new Error(`browser tests need ${executablePath}: apt-get install chromium`)
  // Loaded here: most tests import this package and few need a browser.
  const { chromium } = await import('playwright-core')
  return chromium.launch({ executablePath, headless: true, args: [...flags(), ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])] })
}

function flags(): string[] {
  return [
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1]',
  ]
}
