// An error of a backend, as a client of the OpenAI API expects it. Those that come in OpenAI's envelope stay as they are.
const maxMessage = 2_000

/** Null: it is in the envelope already. */
export function inEnvelope(status: number, content: Buffer): Buffer | null {
  const text = content.toString()
  if (hasEnvelope(text)) return null
  const message = `the backend answered ${status}${text.trim() === '' ? '' : `: ${text.trim().slice(0, maxMessage)}`}`
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return Buffer.from(JSON.stringify({ error: { message, type, param: null, code: 'backend_error' } }))
}

function hasEnvelope(text: string): boolean {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null && 'error' in parsed && typeof parsed.error === 'object' && parsed.error !== null
  } catch {
    return false
  }
}
