// The browser's session cookie.
const name = 'muster_session'

export function sessionCookieOf(header: string | undefined): string | null {
  for (const part of header?.split(';') ?? []) {
    const [key, value] = part.trim().split('=', 2)
    if (key === name && value !== undefined && /^[A-Za-z0-9_-]{16,256}$/.test(value)) return value
  }
  return null
}

export function setSessionCookie(secret: string, options: { maxAgeSeconds: number; isSecure: boolean }): string {
  return `${name}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${options.maxAgeSeconds}${options.isSecure ? '; Secure' : ''}`
}

export const clearSessionCookie = `${name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`
