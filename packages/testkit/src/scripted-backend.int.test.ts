import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { freePort } from './free-port.ts'
import { createProcesses, type StartedProcess } from './processes.ts'
import { copyScriptedBackend, scripted, scriptedBackend, type ScriptedLife, type ScriptedState } from './scripted-backend.ts'
import { makeTempDir } from './temp-dir.ts'
import { waitFor } from './wait-for.ts'

const processes = createProcesses()
afterAll(() => processes.stopAll())

type RunningBackend = Readonly<{ process: StartedProcess; url: string; state: () => Promise<ScriptedState> }>

async function start(life: ScriptedLife = {}, directory = scriptedBackend): Promise<RunningBackend> {
  const port = await freePort()
  const started = await processes.start('node', {
    cwd: directory,
    args: ['./server.mjs', '--addr', `127.0.0.1:${port}`],
    env: { MUSTER_MODEL_NAME: 'm', MUSTER_REPLICA_ID: 'r-1', MUSTER_MODEL_OPTIONS: JSON.stringify(life) },
  })
  const url = `http://127.0.0.1:${port}`
  const state = async (): Promise<ScriptedState> => JSON.parse(await (await fetch(`${url}/scripted/state`)).text())
  return { process: started, url, state }
}

async function ready(life: ScriptedLife = {}, directory = scriptedBackend): Promise<RunningBackend> {
  const started = await start(life, directory)
  await waitFor(async () => (await fetch(`${started.url}/health`)).ok, { what: 'the scripted backend' })
  return started
}

const chat = (url: string, content: string, more: object = {}, init: RequestInit = {}): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }], ...more }),
    ...init,
  })

describe('the scripted backend', () => {
  it('names its build, replica, model and process in every answer', async () => {
    await using directory = await makeTempDir('scripted')
    const copy = join(directory.path, 'other')
    await copyScriptedBackend(copy, { version: '2.0.0' })
    const { url, process } = await ready({}, copy)
    const answer = await (await chat(url, 'hello')).json()
    expect(answer).toMatchObject({
      choices: [{ message: { content: 'token-0 token-1 token-2 token-3 token-4 ' } }],
      scripted: { build: '2.0.0', replica_id: 'r-1', model: 'm', pid: process.pid, aborted: 0 },
    })
    expect(JSON.parse(await readFile(join(scriptedBackend, 'backend.json'), 'utf8'))).toMatchObject({ version: '1.0.0' })
  })

  it('streams the configured number of tokens, and ends properly', async () => {
    const { url } = await ready()
    const text = await (await chat(url, scripted({ tokens: 7, delay_ms: 1 }), { stream: true })).text()
    expect(text.match(/token-\d/g)).toHaveLength(7)
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  it('counts requests whose caller disconnected', async () => {
    const { url, state } = await ready()
    const leaving = new AbortController()
    const asked = chat(url, scripted({ never_end: true }), { stream: true }, { signal: leaving.signal })
    await asked
    leaving.abort()
    await waitFor(async () => (await state()).aborted === 1, { what: 'the abort to be counted' })
    expect((await state()).running).toBe(0)
  })

  it('dies, cuts, refuses and sends garbage on command', async () => {
    const { url, process } = await ready()
    expect((await chat(url, scripted({ status: 429 }))).status).toBe(429)
    await expect(chat(url, scripted({ garbage: true }))).rejects.toThrow('fetch failed')
    await expect(chat(url, scripted({ garbage_body: true })).then((answer) => answer.json())).rejects.toThrow(/JSON/)
    const cut = await chat(url, scripted({ cut_after: 2 }), { stream: true })
    await expect(cut.text()).rejects.toThrow(/terminated/)
    const died = await chat(url, scripted({ die_after: 2 }), { stream: true })
    await expect(died.text()).rejects.toThrow(/terminated/)
    expect(await process.exited).toEqual({ code: null, signal: 'SIGKILL' })
  })

  it('crashes at its start with a message', async () => {
    const { process } = await start({ crash_at_start: 'no such tensor', exit_code: 3 })
    expect(await process.exited).toEqual({ code: 3, signal: null })
    expect(process.stderr()).toBe('no such tensor\n')
  })

  it('embeds by the text alone', async () => {
    const { url } = await ready()
    const embed = async (input: unknown): Promise<unknown> =>
      (await fetch(`${url}/v1/embeddings`, { method: 'POST', body: JSON.stringify({ model: 'm', input }) })).json()
    const [first, both] = [await embed('a'), await embed(['a', 'b'])]
    expect(first).toMatchObject({ data: [{ index: 0, embedding: expect.any(Array) }] })
    expect(both).toMatchObject({ data: [(first as { data: unknown[] }).data[0], { index: 1 }] })
  })
})
