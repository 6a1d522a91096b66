// Whether every model that is wanted can be loaded.
import { modelRoutes, type ModelView } from '@muster/protocol'
import { probeHttp, type HttpFinding } from './ask-http.ts'
import type { KnownTarget } from './known-target.ts'
import { type Check, ok, type Verdict, warn } from './verdict.ts'

export function judgeModels(finding: HttpFinding | null): Verdict {
  const told = modelRoutes.list.response?.safeParse(finding?.answered === true ? finding.json : undefined)
  if (told?.success !== true) return ok('not looked at: no controller tells this key of them')
  const { models } = told.data
  const failed = models.filter((model) => model.failure !== null)
  if (failed.length > 0) return warn(`${failed.length} of ${models.length} could not be loaded: ${failed.map(causeOf).join('; ')}`, modelsAdvice)
  const ready = models.filter((model) => model.state === 'ready').length
  return ok(models.length === 0 ? 'none yet' : `${ready} of ${models.length} ready, none has failed`)
}

const modelsAdvice = '`muster models why NAME` says where it could run, `muster models logs NAME` what it wrote'

const causeOf = ({ name, failure }: ModelView): string => `${name} (${failure?.message ?? ''})`

export const modelsCheck = (known: KnownTarget): Check => ({
  name: 'models',
  run: async (signal) => {
    const { target } = known
    return judgeModels(target === null || target.isKeyWithheld ? null : await probeHttp(target, modelRoutes.list.path, signal))
  },
})
