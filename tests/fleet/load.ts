// Requests at a steady rate, through every controller in turn, and what came of each.
import { performance } from 'node:perf_hooks'
import { inspect } from 'node:util'
import { scripted, type RunningController, type ScriptedAnswer } from '@muster/testkit'

export interface Load {
  /** Answers so far. */
  count(): number
  /** Builds that answered since the last call. */
  builds(): Set<string>
  /** Failures so far, in words. */
  failures(): readonly string[]
  /** The longest time between two good answers. */
  longestGapMs(): number
  stop(): Promise<void>
}
export type LoadOptions = Readonly<{ model: string; perSecond: number; script?: ScriptedAnswer }>

export function startLoad(controllers: readonly RunningController[], { model, perSecond, script = {} }: LoadOptions): Load {
  const failures: string[] = []
  const underWay = new Set<Promise<void>>()
  let builds = new Set<string>()
  let [count, turn, lastGoodAt, longestGapMs] = [0, 0, performance.now(), 0]
  const began = performance.now()
  const ask = async (): Promise<void> => {
    const controller = controllers[turn % controllers.length]
    turn += 1
    if (controller === undefined) return
    const sentAt = performance.now()
    try {
      // A conversation of its own each: they are spread, and each of them is one whatever the policy.
      const messages = [
        { role: 'system', content: `conversation ${turn}` },
        { role: 'user', content: scripted(script) },
      ]
      const { status, text, body } = await controller.api.post('/v1/chat/completions', { model, messages })
      const build = (body['scripted'] as { build?: string } | undefined)?.build
      if (status !== 200 || build === undefined) failures.push(`${status} ${text.slice(0, 300)} (sent at ${Math.round(sentAt - began)} ms)`)
      else {
        builds.add(build)
        longestGapMs = Math.max(longestGapMs, performance.now() - lastGoodAt)
        lastGoodAt = performance.now()
      }
    } catch (error) {
      failures.push(`${inspect(error, { breakLength: Infinity }).slice(0, 500)} (sent at ${Math.round(sentAt - began)} ms)`)
    }
    count += 1
  }
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - began) / 1000) * perSecond)
    // After a stall of this process it goes on at the same rate, and does not make up for it.
    for (let sent = 0; turn < due && sent < 5; sent += 1) {
      const asked = ask().finally(() => underWay.delete(asked))
      underWay.add(asked)
    }
    if (turn < due) turn = due
  }, 1000 / perSecond)
  return {
    count: () => count,
    builds() {
      const seen = builds
      builds = new Set()
      return seen
    },
    failures: () => failures,
    longestGapMs: () => Math.max(longestGapMs, performance.now() - lastGoodAt),
    async stop() {
      clearInterval(timer)
      await Promise.all(underWay)
    },
  }
}
