// `muster chat` against a scripted controller: what is asked, what reaches stdout, and that a part is never taken for the whole.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { inferenceRoutes, modelRoutes, type ModelState } from '@muster/protocol'
import { createProcesses, waitFor } from '@muster/testkit'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Result, runInProcess } from './run-in-process.ts'
import { type ScriptedController, startScriptedController } from './scripted-controller.ts'

const processes = createProcesses()
let controller: ScriptedController
beforeEach(async () => {
  controller = await startScriptedController()
})
afterEach(() => controller[Symbol.asyncDispose]())
afterAll(() => processes.stopAll())

const env = () => ({ MUSTER_URL: controller.url, MUSTER_ADMIN_KEY: 'k' })
const chat = (...args: string[]): Promise<Result> => runInProcess(['chat', ...args], env())
const questions = () => controller.asked.filter(({ method }) => method === 'POST')

const piece = (content: string, finish: string | null = null): object => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finish }],
})
const usage = { choices: [], usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 } }
const send = (response: ServerResponse, chunks: readonly (object | string)[]): void => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const chunk of chunks) response.write(`data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`)
}
const answers = (...chunks: (object | string)[]): void =>
  controller.reply(inferenceRoutes.chat, (_, response) => {
    send(response, chunks)
    response.end()
  })
const whole = [{ choices: [{ delta: { role: 'assistant' } }] }, piece('Hello'), piece(' wörld'), piece('', 'stop'), usage, '[DONE]']

const loading = (state: ModelState = 'staging') => ({
  model: 'tiny',
  state,
  node: 'gpu-1',
  progress: 41.2,
  current_bytes: 1.2e9,
  total_bytes: 3e9,
  eta_seconds: 11,
})
const isLoading = (response: ServerResponse, retryAfter = '0'): void => {
  response.writeHead(503, { 'content-type': 'application/json', 'retry-after': retryAfter })
  const error = { message: 'model tiny is loading on node gpu-1 (41%, ~11 s left)', type: 'model_loading', code: 'model_loading' }
  response.end(JSON.stringify({ error, loading: loading() }))
}

describe('one question', () => {
  it('is answered on stdout, with nothing else there', async () => {
    answers(...whole)
    expect(await chat('tiny', 'Say hello')).toEqual({ code: 0, stdout: 'Hello wörld\n', stderr: '' })
    expect(questions()).toMatchObject([
      {
        path: '/v1/chat/completions',
        headers: { authorization: 'Bearer k' },
        body: {
          model: 'tiny',
          messages: [{ role: 'user', content: 'Say hello' }],
          stream: true,
          stream_options: { include_usage: true },
        },
      },
    ])
    expect(Object.keys(questions()[0]?.body ?? {})).toEqual(['model', 'messages', 'stream', 'stream_options'])
  })

  it('can be piped in, and takes a system prompt', async () => {
    answers(...whole)
    const args = ['chat', 'team/tiny', '--system', 'Be short.', '--temperature', '0.5', '--max-tokens', '9', '--seed', '42', '--stats']
    const { code, stdout, stderr } = await runInProcess(args, env(), 'two\nlines\n')
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Hello wörld\n' })
    expect(stderr).toMatch(/^5 prompt tokens, 3 completion tokens in \d+\.\d s, first token after \d+\.\d s(?:, [\d.]+ tokens\/s)?\n$/)
    expect(questions()[0]?.body).toMatchObject({
      model: 'team/tiny',
      messages: [
        { role: 'system', content: 'Be short.' },
        { role: 'user', content: 'two\nlines\n' },
      ],
      temperature: 0.5,
      max_tokens: 9,
      seed: 42,
    })
  })

  it('with -o json prints the whole answer as it came', async () => {
    const answer = { id: 'x', choices: [{ message: { role: 'assistant', content: 'Hello' } }], usage: usage.usage, more: [1] }
    controller.reply(inferenceRoutes.chat, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
    const { code, stdout, stderr } = await chat('tiny', 'hi', '-o', 'json')
    expect({ code, stderr, json: JSON.parse(stdout) as unknown }).toEqual({ code: 0, stderr: '', json: answer })
    expect(questions()[0]?.body).toMatchObject({ stream: false })
    // A backend that knows no streams is understood too.
    expect(await chat('tiny', 'hi')).toEqual({ code: 0, stdout: 'Hello\n', stderr: '' })
  })

  it('prints when the answer was ended by its length', async () => {
    answers(piece('Hel'), piece('', 'length'), '[DONE]')
    expect(await chat('tiny', 'hi', '--stats')).toMatchObject({
      code: 0,
      stdout: 'Hel\n',
      stderr: expect.stringMatching(/ends at the limit of tokens\n.*did not report token counts/) as string,
    })
  })

  it.each([
    [['tiny'], ''],
    [['tiny', ' '], ''],
    [['../x', 'hi'], ''],
    [['tiny', 'hi', '--temperature', 'hot'], ''],
    [['tiny', 'hi', '--max-tokens', '0'], ''],
    [['tiny', 'hi', '--wait', '5 apples'], ''],
    [['tiny', 'hi', 'there'], ''],
    [[], ''],
  ])('%j is refused before anybody is asked', async (args, piped) => {
    expect((await runInProcess(['chat', ...args], env(), piped)).code).toBe(2)
    expect(controller.asked).toEqual([])
  })
})

describe('an answer that is not whole', () => {
  it.each([
    [
      'an error in the stream',
      [piece('Hel'), { error: { message: 'the replica exited', type: 'server_error', code: null } }],
      /the replica exited/,
    ],
    ['an end without [DONE]', [piece('Hel'), piece('', 'stop')], /stream ended early/],
    ['something else', [piece('Hel'), '<html>'], /unexpected event/],
  ])('%s is told on stderr, and ends with 1', async (_, chunks, reason) => {
    answers(...chunks)
    const { code, stdout, stderr } = await chat('tiny', 'hi')
    expect({ code, stdout }).toEqual({ code: 1, stdout: 'Hel\n' })
    expect(stderr).toMatch(/^error: the answer was cut off: /)
    expect(stderr).toMatch(reason)
  })

  it.each([[[]], [['-o', 'json']]])('a connection that breaks in the middle is told, and ends with 1: %j', async (args) => {
    controller.reply(inferenceRoutes.chat, (_, response) => {
      send(response, [piece('Hel')])
      response.write('data: {"choi', () => response.destroy())
    })
    const { code, stdout, stderr } = await chat('tiny', 'hi', ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: args.length === 0 ? 'Hel\n' : '' })
    expect(stderr).toMatch(/^error: (?:the answer was cut off|cannot reach)/)
  })

  it.each([
    [
      404,
      { message: 'no model is called tiny', type: 'invalid_request_error', code: 'model_not_found' },
      'no model is called tiny (model_not_found)',
    ],
    [
      503,
      { message: 'tiny.gguf is damaged', type: 'model_load_failed', code: 'model_load_failed' },
      'tiny.gguf is damaged (model_load_failed)',
    ],
    [429, { message: 'slow down', type: 'rate_limit', param: null, code: null }, 'slow down (rate_limit)'],
  ])('a refusal (%d) is shown unchanged', async (status, error, said) => {
    controller.reply(inferenceRoutes.chat, (_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
    })
    expect(await chat('tiny', 'hi')).toEqual({ code: 1, stdout: '', stderr: `error: ${said}\n` })
    expect(questions()).toHaveLength(1)
  })
})

describe('a model that is not loaded', () => {
  it.each([[[]], [['-o', 'json']]])('is waited for, through refusals that say so: %j', async (args) => {
    controller.reply(inferenceRoutes.chat, (_, response) => {
      if (questions().length < 3) return isLoading(response)
      if (args.length > 0) return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"choices":[]}')
      send(response, whole)
      response.end()
    })
    const { code, stdout, stderr } = await chat('tiny', 'hi', ...args)
    expect(code).toBe(0)
    expect(questions()).toHaveLength(3)
    if (args.length === 0) expect({ stdout, stderr }).toEqual({ stdout: 'Hello wörld\n', stderr: 'tiny is staging on gpu-1\n' })
    else expect({ json: JSON.parse(stdout) as unknown, stderr }).toEqual({ json: { choices: [] }, stderr: '' })
  })

  it('is printed while the request waits, with each step once, as far as the key may read it', async () => {
    const states: ModelState[] = ['installing', 'installing', 'loading']
    let held: ServerResponse | null = null
    controller.reply(inferenceRoutes.chat, (_, response) => void (held = response))
    controller.reply(modelRoutes.loadStatus, (_, response) => {
      const state = states.shift()
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ ...loading(state ?? 'ready'), eta_seconds: undefined, failure: null }))
      if (state !== undefined || held === null) return
      send(held, whole)
      held.end()
    })
    expect(await chat('tiny', 'hi')).toEqual({
      code: 0,
      stdout: 'Hello wörld\n',
      stderr: 'tiny is installing on gpu-1\ntiny is loading on gpu-1\n',
    })
  })

  it('needs no right to look: the answer comes all the same', async () => {
    let looked = 0
    controller.reply(inferenceRoutes.chat, (_, response) => {
      void waitFor(() => looked > 0, { what: 'a look at the load' }).then(() => {
        send(response, whole)
        response.end()
      })
    })
    controller.reply(modelRoutes.loadStatus, (_, response) => {
      looked += 1
      response.writeHead(403, { 'content-type': 'application/json' }).end('{"error":{"code":"forbidden","message":"no"}}')
    })
    expect(await chat('tiny', 'hi')).toEqual({ code: 0, stdout: 'Hello wörld\n', stderr: '' })
    expect(looked).toBe(1)
  })

  it('is not waited for longer than --wait: 3, for it goes on loading', async () => {
    controller.reply(inferenceRoutes.chat, (_, response) => isLoading(response, '30'))
    const refused = await chat('tiny', 'hi', '--wait', '50ms')
    expect(refused).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('model tiny is loading on node gpu-1') as string })
    // Also when the controller holds the request, if it is known to be loading.
    controller.reply(inferenceRoutes.chat, () => undefined)
    controller.answer(modelRoutes.loadStatus, { ...loading(), failure: null })
    const held = await chat('tiny', 'hi', '--wait', '1s')
    expect(held).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('the model is still loading') as string })
  })
})

describe('a conversation on a terminal', () => {
  const main = join(import.meta.dirname, '..', 'src', 'main.ts')
  /** Debian's program that runs another one in a terminal. */
  const terminal = 'script'
  async function converse() {
    const command = `stty cols 100 rows 24; exec '${process.execPath}' '${main}' chat tiny --system S`
    const child = spawn(terminal, ['-qec', command, '/dev/null'], {
      env: { PATH: process.env['PATH'], ...env(), TERM: 'xterm', NO_COLOR: '1' },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => void (output += chunk.toString()))
    const exited = once(child, 'exit')
    const prompts = () => output.split('> ').length - 1
    return {
      output: () => output,
      exited,
      type: async (text: string, after: number): Promise<void> => {
        await waitFor(() => prompts() >= after, { what: `prompt ${after}` })
        child.stdin.write(text)
      },
      [Symbol.dispose]: () => void child.kill('SIGKILL'),
    }
  }

  it('remembers the conversation; Ctrl-C stops an answer only, Ctrl-D ends with 0', async () => {
    let count = 0
    let cutOff = false
    controller.reply(inferenceRoutes.chat, (_, response) => {
      count += 1
      if (count !== 2) {
        send(response, [piece(`answer ${count}\u001b]0;x\u0007`), '[DONE]'])
        return void response.end()
      }
      response.on('close', () => void (cutOff = true))
      send(response, [piece('half an ans')])
    })
    using talk = await converse()
    await talk.type('first\r', 1)
    await talk.type('second\r', 2)
    await waitFor(() => talk.output().includes('half an ans'), { what: 'half an answer' })
    await talk.type('\u0003', 2)
    await waitFor(() => cutOff, { what: 'the end of the request' })
    await talk.type('\u0003', 3)
    await talk.type('\u001b[A\r', 4)
    // The arrow draws the prompt again, so prompts cannot be counted here.
    await waitFor(() => talk.output().split('answer 3')[1]?.includes('> '), { what: 'the prompt after the third answer' })
    await talk.type('\u0004', 5)
    expect(await talk.exited).toEqual([0, null])
    expect(talk.output()).toContain('stopped')
    expect(talk.output()).not.toContain('\u001b]0;x')
    expect(questions().map(({ body }) => body)).toMatchObject([
      {
        messages: [
          { role: 'system', content: 'S' },
          { role: 'user', content: 'first' },
        ],
      },
      { messages: [{}, {}, { role: 'assistant' }, { role: 'user', content: 'second' }] },
      { messages: [{}, {}, {}, {}, { role: 'assistant', content: 'half an ans' }, { role: 'user', content: 'second' }] },
    ])
  })

  it('continues after an answer that was refused or cut off, without that question', async () => {
    let count = 0
    controller.reply(inferenceRoutes.chat, (_, response) => {
      count += 1
      if (count === 1)
        return void response
          .writeHead(503, { 'content-type': 'application/json' })
          .end('{"error":{"message":"no room","code":"no_capacity"}}')
      send(response, count === 2 ? [piece('ha')] : [piece('yes'), '[DONE]'])
      response.end()
    })
    using talk = await converse()
    await talk.type('one\r', 1)
    await talk.type('two\r', 2)
    await talk.type('three\r', 3)
    await talk.type('\u0004', 4)
    expect(await talk.exited).toEqual([0, null])
    expect(talk.output()).toMatch(/no room \(no_capacity\)[^]*the answer was cut off[^]*yes/)
    expect(questions().at(-1)?.body).toMatchObject({ messages: [{ role: 'system' }, { role: 'user', content: 'three' }] })
  })
})

describe('Ctrl-C', () => {
  it('ends one question with 1, and stops the answer', async () => {
    let cutOff = false
    controller.reply(inferenceRoutes.chat, (_, response) => {
      response.on('close', () => void (cutOff = true))
      send(response, [piece('half')])
    })
    const run = await processes.muster(['chat', 'tiny', 'hi'], { env: env() })
    await run.waitForOutput(/half/)
    run.kill('SIGINT')
    expect(await run.exited).toEqual({ code: 1, signal: null })
    expect(run.stderr()).toContain('the answer is incomplete')
    await waitFor(() => cutOff, { what: 'the end of the request' })
  })
})
