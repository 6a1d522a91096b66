// The playground's request as code.
import type { Message } from './conversation.pure.ts'
import type { Parameters } from './parameters.pure.ts'

export interface SampleRequest {
  /** Such as `http://127.0.0.1:8080`. */
  readonly origin: string
  /** On the controller's own machine no key is required by default. */
  readonly isKeyNeeded: boolean
  readonly model: string
  readonly messages: readonly Message[]
  readonly parameters: Parameters
}
export type Sample = (request: SampleRequest) => string

const bodyOf = ({ model, messages, parameters }: SampleRequest): object => ({ model, messages, ...parameters })

/** Quotes any text as one word of a POSIX shell. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export const curlSample: Sample = (request) => {
  const key = '-H "Authorization: Bearer $MUSTER_API_KEY"'
  const lines = [
    `curl ${shellQuote(`${request.origin}/v1/chat/completions`)}`,
    `-H 'Content-Type: application/json'`,
    ...(request.isKeyNeeded ? [key] : []),
    `-d ${shellQuote(JSON.stringify(bodyOf(request), null, 2))}`,
  ]
  const about = request.isKeyNeeded ? '# $MUSTER_API_KEY: a key with the scope inference' : `# if a key is required, add ${key}`
  return `${about}\n${lines.join(' \\\n  ')}`
}

export const javascriptSample: Sample = (request) => {
  const apiKey = request.isKeyNeeded
    ? `process.env.MUSTER_API_KEY, // a key with the scope inference`
    : `'none', // if a key is required: process.env.MUSTER_API_KEY`
  return [
    `import OpenAI from 'openai'`,
    ``,
    `const client = new OpenAI({`,
    `  baseURL: ${JSON.stringify(`${request.origin}/v1`)},`,
    `  apiKey: ${apiKey}`,
    `})`,
    // JSON is valid JavaScript since U+2028 is allowed in strings.
    `const completion = await client.chat.completions.create(${JSON.stringify(bodyOf(request), null, 2)})`,
    `console.log(completion.choices[0].message.content)`,
  ].join('\n')
}

export const pythonSample: Sample = (request) => {
  const apiKey = request.isKeyNeeded
    ? `os.environ["MUSTER_API_KEY"],  # a key with the scope inference`
    : `"none",  # if a key is required: os.environ["MUSTER_API_KEY"]`
  const fields = Object.entries(bodyOf(request)).map(([name, value]) => `    ${name}=${JSON.stringify(value)},`)
  return [
    ...(request.isKeyNeeded ? ['import os', ''] : []),
    `from openai import OpenAI`,
    ``,
    `client = OpenAI(`,
    `    base_url=${JSON.stringify(`${request.origin}/v1`)},`,
    `    api_key=${apiKey}`,
    `)`,
    // JSON strings, numbers and lists are valid Python; these fields have no true, false or null.
    `completion = client.chat.completions.create(`,
    ...fields,
    `)`,
    `print(completion.choices[0].message.content)`,
  ].join('\n')
}
