// Runs the code samples with a real shell, which is why this test is not beside the source.
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { curlSample, javascriptSample, pythonSample, shellQuote, type SampleRequest } from '../src/features/playground/code-samples.pure.ts'

const texts = [
  'plain',
  '',
  "it's",
  "''",
  '"quoted" and \\ and `date` and $HOME and $(date)',
  'two\nlines\r\nand a tab\t',
  '!history ~ * ? [a] {b} # not a comment',
  '\u2028 é 漢 👩‍🚀',
  "a'\\''b",
  '@/etc/passwd',
]
const request = (content: string, changes: Partial<SampleRequest> = {}): SampleRequest => ({
  origin: 'http://127.0.0.1:8080',
  isKeyNeeded: false,
  model: 'tiny',
  messages: [{ role: 'user', content }],
  parameters: { temperature: 0, stop: ["'"] },
  ...changes,
})
const sh = (script: string): string => execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { MUSTER_API_KEY: 'k e y' } })
/** The arguments that a shell passes to curl. */
const wordsOf = (command: string): string[] => sh(`curl() { printf '%s\\0' "$@"; }\n${command}`).split('\0').slice(0, -1)

describe('a code sample', () => {
  it.each(texts)('quotes one shell word: %j', (text) => expect(sh(`printf %s ${shellQuote(text)}`)).toBe(text))

  it.each(texts)('for curl sends exactly %j', (content) => {
    const words = wordsOf(curlSample(request(content)))
    expect(words.slice(0, -1)).toEqual(['http://127.0.0.1:8080/v1/chat/completions', '-H', 'Content-Type: application/json', '-d'])
    expect(JSON.parse(words.at(-1) ?? '')).toEqual({
      ...{ model: 'tiny', temperature: 0, stop: ["'"] },
      messages: [{ role: 'user', content }],
    })
  })

  it('for curl sends the key if required, and mentions it otherwise', () => {
    const keyed = request('a', { isKeyNeeded: true, origin: 'https://muster.example' })
    expect(wordsOf(curlSample(keyed))).toContain('Authorization: Bearer k e y')
    expect(wordsOf(curlSample(request('a'))).join(' ')).not.toContain('Bearer')
    for (const sample of [curlSample, javascriptSample, pythonSample])
      for (const each of [keyed, request('a')]) expect(sample(each)).toContain('MUSTER_API_KEY')
  })

  it.each(texts)('for JavaScript sends exactly %j', async (content) => {
    const code = javascriptSample(request(content)).replace(/^import .*\n/, '')
    let sent: unknown
    class OpenAI {
      chat = { completions: { create: (body: unknown) => ((sent = body), { choices: [{ message: { content: '' } }] }) } }
    }
    const source = `data:text/javascript,${encodeURIComponent(`export default async (OpenAI, console) => {${code}\n}`)}`
    const { default: run } = (await import(/* @vite-ignore */ source)) as { default: (...args: unknown[]) => Promise<void> }
    await run(OpenAI, { log: () => undefined })
    expect(sent).toEqual({ model: 'tiny', messages: [{ role: 'user', content }], temperature: 0, stop: ["'"] })
  })

  it('for Python has the parameters as arguments', () => {
    expect(pythonSample(request('say "hi"\n'))).toContain('    messages=[{"role":"user","content":"say \\"hi\\"\\n"}],\n    temperature=0,')
  })
})
