// Runs all checks at once, each with its own time limit: nothing that hangs can hang the doctor.
import type { Clock } from '@muster/host'
import { type Check, fail, type Verdict } from './verdict.ts'

export type Finding = Verdict & { readonly name: string }

export async function runChecks(checks: readonly Check[], { clock, timeoutMs }: { clock: Clock; timeoutMs: number }): Promise<Finding[]> {
  return Promise.all(checks.map(async (check) => ({ name: check.name, ...(await runOne(check, { clock, timeoutMs })) })))
}

async function runOne(check: Check, { clock, timeoutMs }: { clock: Clock; timeoutMs: number }): Promise<Verdict> {
  const late = new AbortController()
  const done = new AbortController()
  const limit = async (): Promise<Verdict> => {
    await clock.sleep(timeoutMs, done.signal)
    late.abort(new Error('too late'))
    return fail(`no result within ${timeoutMs / 1000} s`, 'something it asks hangs: look at the other findings first')
  }
  const work = async (): Promise<Verdict> => {
    try {
      return await check.run(late.signal)
    } catch (error) {
      return fail(
        `the check itself failed: ${error instanceof Error ? error.message : String(error)}`,
        'this is a bug, or a very unusual machine: please report it',
      )
    }
  }
  try {
    return await Promise.race([work(), limit().catch(() => new Promise<never>(() => undefined))])
  } finally {
    done.abort()
  }
}
