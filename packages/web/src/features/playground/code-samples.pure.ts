// Pure: the request that the playground sends, as one would send it from elsewhere.
import type { Message } from './conversation.pure.ts'
import type { Parameters } from './parameters.pure.ts'

export interface SampleRequest {
  /** As `http://127.0.0.1:8080`. */
  readonly origin: string
  /** Whoever is on the machine itself needs no key, unless it was started otherwise. */
  readonly isKeyNeeded: boolean
  readonly model: string
  readonly messages: readonly Message[]
  readonly parameters: Parameters
}
export type Sample = (request: SampleRequest) => string

const bodyOf = ({ model, messages, parameters }: SampleRequest): object => ({ model, messages, ...parameters })

/** One word to a POSIX shell, whatever is in it. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export const curlSample: Sample = (request) => {
  const key = '-H "Authorization: Bearer $MUSTER_API_KEY"'
  const lines = [
    `curl ${shellQuote(`${request.origin}/v1/chat/completions`)}`,
    `-H 'Content-Type: application/json'`,
    ...(request.isKeyNeeded ? [key] : []),
    `-d ${shellQuote(JSON.stringify(bodyOf(request), null, 2))}`,
  ]
  const about = request.isKeyNeeded ? '# $MUSTER_API_KEY: a key with the scope inference' : `# where a key is needed, add ${key}`
  return `${about}\n${lines.join(' \\\n  ')}`
}

export const javascriptSample: Sample = (request) => {
  const apiKey = request.isKeyNeeded
    ? `process.env.MUSTER_API_KEY, // a key with the scope inference`
    : `'none', // where a key is needed: process.env.MUSTER_API_KEY`
  return [
    `import OpenAI from 'openai'`,
    ``,
    `const client = new OpenAI({`,
    `  baseURL: ${JSON.stringify(`${request.origin}/v1`)},`,
    `  apiKey: ${apiKey}`,
    `})`,
    // JSON is JavaScript, since it allows U+2028 in strings.
    `const completion = await client.chat.completions.create(${JSON.stringify(bodyOf(request), null, 2)})`,
    `console.log(completion.choices[0].message.content)`,
  ].join('\n')
}

export const pythonSample: Sample = (request) => {
  const apiKey = request.isKeyNeeded
    ? `os.environ["MUSTER_API_KEY"],  # a key with the scope inference`
    : `"none",  # where a key is needed: os.environ["MUSTER_API_KEY"]`
  const given = Object.entries(bodyOf(request)).map(([name, value]) => `    ${name}=${JSON.stringify(value)},`)
  return [
    ...(request.isKeyNeeded ? ['import os', ''] : []),
    `from openai import OpenAI`,
    ``,
    `client = OpenAI(`,
    `    base_url=${JSON.stringify(`${request.origin}/v1`)},`,
    `    api_key=${apiKey}`,
    `)`,
    // Strings, numbers and lists of JSON are those of Python; there is neither true nor null among these.
    `completion = client.chat.completions.create(`,
    ...given,
    `)`,
    `print(completion.choices[0].message.content)`,
  ].join('\n')
}
