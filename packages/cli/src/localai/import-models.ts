// Imports the models of a site, one after the other: computes hashes of local files, decides, stores the configuration and sends
// files. A failure concerns one model; the next one is tried in any case.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { errorMessage } from '@muster/host'
import { type ModelConfig, ModelFileName, ModelName, modelRoutes } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { openUpload } from '../models/upload.ts'
import { decideModel, type ModelDecision, missingUploads, unfinishedConfig } from './decide-model.pure.ts'
import type { ImportDeps, Item, PartResult } from './import-item.ts'
import { checkConfig, type Convert, type ModelPlan, planModel, type PlanInput } from './plan-model.pure.ts'
import { toScheduling } from './scheduling.pure.ts'
import { type Loss, type Site, textOf } from './site.ts'

/** `imported`: receives the names of all models of the site. */
export async function importModels(site: Site, imported: Set<string>, deps: ImportDeps): Promise<PartResult> {
  const convert: Convert = await import('@muster/source')
  const rules = new Map(site.rules.map((rule) => [toScheduling(rule.rule).model, rule]))
  const hashFile = createFileHasher(site, deps.signal)
  const items: Item[] = []
  const losses: Loss[] = []
  /** The reason why the rest is not tried. */
  let stopped: string | null = null
  for (const model of site.models) {
    const plan = planOrRefuse({ model, local: site.local, defaults: site.defaults, rule: rules.get(textOf(model.source['name'])) }, convert)
    imported.add(plan.name)
    losses.push(...plan.losses)
    const result: Result = stopped === null ? await importModel(plan, { ...deps, site, hashFile }) : { outcome: 'failed', message: stopped }
    items.push({ kind: 'model', name: plan.name, outcome: result.outcome, message: result.message })
    if (result.isLast === true) stopped = `not tried: ${result.message}`
  }
  return { items, losses }
}

/** The configuration is foreign: whatever the conversion trips over concerns this model alone. */
function planOrRefuse(input: PlanInput, convert: Convert): ModelPlan {
  try {
    return planModel(input, convert)
  } catch (error) {
    const { source, from } = input.model
    return { name: textOf(source['name']), from, config: {}, localFiles: [], problems: [errorMessage(error)], losses: [] }
  }
}

type ModelDeps = ImportDeps & Readonly<{ site: Site; hashFile: HashFile }>
/** `isLast`: the next model would fail in the same way. */
type Result = Pick<Item, 'outcome' | 'message'> & Readonly<{ isLast?: boolean }>

const refused = (reasons: readonly string[]): Result => ({ outcome: 'refused', message: reasons.join('; ') })

async function importModel(plan: ModelPlan, deps: ModelDeps): Promise<Result> {
  const name = ModelName.safeParse(plan.name)
  if (!name.success) return refused([`name: ${name.error.issues[0]?.message ?? 'not valid'}`])
  if (plan.problems.length > 0) return refused(plan.problems)
  try {
    const provided = await provideFiles(plan, deps)
    const files = Array.isArray(plan.config['files']) ? plan.config['files'] : []
    const checked = checkConfig({ ...plan.config, files: [...files, ...provided] })
    if ('problem' in checked) return refused([checked.problem])
    return await storeModel({ name: name.data, wanted: checked.config }, deps)
  } catch (error) {
    if (deps.signal.aborted) throw new CliError('stopped; the same command continues the import', { cause: error })
    return { outcome: 'failed', message: errorMessage(error), isLast: isAboutAll(error) }
  }
}

/** The controller cannot be reached, or refuses the key. A file that cannot be read is a wrong usage. */
const isAboutAll = (error: unknown): boolean =>
  error instanceof CliError && (error.status === 401 || error.status === 403 || (error.status === null && error.exitCode === 1))

interface WantedModel {
  readonly name: ModelName
  readonly wanted: ModelConfig
}

const outcomes: Readonly<Record<ModelDecision, Item['outcome']>> = {
  create: 'created',
  finish: 'changed',
  replace: 'changed',
  unchanged: 'unchanged',
  keep: 'kept',
}

async function storeModel({ name, wanted }: WantedModel, deps: ModelDeps): Promise<Result> {
  const { api, isDryRun, mayReplace } = deps
  const stored = await readStored(api, name)
  const decision = decideModel({ stored, wanted, mayReplace })
  const outcome = outcomes[decision]
  if (decision === 'unchanged') return { outcome, message: '' }
  if (decision === 'keep') return { outcome, message: 'it exists with another configuration; --replace changes it' }
  const sent = missingUploads(stored, wanted)
  const message = sent.length === 0 ? '' : `${sent.length} ${sent.length === 1 ? 'file' : 'files'} sent`
  if (isDryRun) return await validate({ name, wanted }, deps, { outcome, message: message.replace('sent', 'to send') })
  if (sent.length > 0) await putModel({ name, wanted: unfinishedConfig(stored, wanted) }, deps)
  for (const { filename } of sent) await sendFile({ name, filename }, deps)
  await putModel({ name, wanted }, deps)
  return { outcome, message }
}

async function readStored(api: ImportDeps['api'], name: ModelName): Promise<ModelConfig | null> {
  try {
    return (await api.call(modelRoutes.get, { params: { name } })).body.config
  } catch (error) {
    if (error instanceof CliError && error.status === 404 && error.code !== null) return null
    throw error
  }
}

const jsonContent = (value: unknown) => ({ type: 'application/json', body: JSON.stringify(value) })

/** The same checks as a PUT, without storing anything. */
async function validate({ name, wanted }: WantedModel, { api }: ModelDeps, result: Result): Promise<Result> {
  const { body } = await api.call(modelRoutes.validate, { query: { name }, content: jsonContent(wanted) })
  return body.valid ? result : refused(body.problems.map(({ message }) => message))
}

async function putModel({ name, wanted }: WantedModel, { api }: ModelDeps): Promise<void> {
  await api.call(modelRoutes.put, { params: { name }, query: {}, content: jsonContent(wanted) })
}

async function sendFile({ name, filename }: { name: ModelName; filename: string }, deps: ModelDeps): Promise<void> {
  const { api, clock, screen, signal, site } = deps
  using upload = await openUpload(await site.local.locate(filename), { screen, clock })
  await api.call(modelRoutes.upload, { params: { name, filename: ModelFileName.parse(filename) }, signal, content: upload.content })
}

/** The sources of local files: an upload by its digest, or the path on the machine of a worker. */
async function provideFiles({ localFiles }: ModelPlan, { hashFile, files, showStatus }: ModelDeps) {
  const provided: { uri: string; filename: string; sha256: string }[] = []
  for (const filename of localFiles) {
    showStatus(`hashing ${filename}`)
    const { path, sha256 } = await hashFile(filename)
      .catch((error: unknown) => {
        throw new Error(`${filename} cannot be read: ${errorMessage(error)}`, { cause: error })
      })
      .finally(() => showStatus(null))
    provided.push({ uri: files === 'upload' ? `upload:sha256:${sha256}` : pathToFileURL(path).href, filename, sha256 })
  }
  return provided
}

type HashFile = (filename: string) => Promise<{ path: string; sha256: string }>

/** Models share files; each is hashed once. */
function createFileHasher({ local }: Site, signal: AbortSignal): HashFile {
  const known = new Map<string, Promise<{ path: string; sha256: string }>>()
  const compute = async (filename: string) => {
    const path = await local.locate(filename)
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(path, { signal })) hash.update(chunk)
    return { path, sha256: hash.digest('hex') }
  }
  return (filename) => {
    const found = known.get(filename) ?? compute(filename)
    known.set(filename, found)
    return found
  }
}
