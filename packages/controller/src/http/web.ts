// The web page: static files, open to anyone (what they show needs a login).
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { route } from '@muster/protocol'
import { endpoint, type Endpoint } from './endpoint.ts'

const files: Readonly<Record<string, { file: string; type: string }>> = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/app.js': { file: 'app.js', type: 'text/javascript; charset=utf-8' },
  '/style.css': { file: 'style.css', type: 'text/css; charset=utf-8' },
}

/** Nothing from elsewhere, nothing inline, no frame around it. */
const security = {
  'content-security-policy': "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

export function webEndpoints(directory: string): Endpoint[] {
  return Object.entries(files).map(([path, { file, type }]) => {
    const bytes = readFileSync(join(directory, file))
    const etag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}"`
    const headers = { ...security, 'content-type': type, etag, 'cache-control': 'no-cache' }
    return endpoint(route({ method: 'GET', path, access: 'open', summary: `The web page: ${file}`, produces: type }), async (call) =>
      call.headers.get('if-none-match') === etag ? new Response(null, { status: 304, headers }) : new Response(bytes, { headers }),
    )
  })
}
